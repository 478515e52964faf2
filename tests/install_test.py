#!/usr/bin/env python3
"""What `cmake --install` writes serves a product: a C and a C++ program find it by find_package and
by pkg-config, after it was moved, and run a model. Another project takes evoq's tree as a part of
its own. Skips (77) without a C compiler, cmake or pkg-config, and in builds with sanitizers
(EVOQ_BUILD says which)."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import agree

PROJECT = """cmake_minimum_required(VERSION 3.22)
project(product LANGUAGES C CXX)
find_package(evoq 0.1 CONFIG REQUIRED)
add_executable(small %s/examples/runtime/run_etm.c)
target_link_libraries(small PRIVATE evoq::evoq_runtime)
add_executable(whole whole.cc)
target_link_libraries(whole PRIVATE evoq::evoq)
"""
WHOLE = """#include <evoq/evoq.h>
#include <evoq/language.h>
#include <evoq/toolchain.h>
#include <iostream>

int main(int count, char** names) {
  std::string error;
  const auto session = evoq::Session::Load(names[count - 1], {}, &error);
  std::cout << (session ? "loaded" : error) << "\\n";
  return session ? 0 : 1;
}
"""
# Its settings are for files of its own.
AROUND = """cmake_minimum_required(VERSION 3.22)
project(around LANGUAGES C CXX)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_UNITY_BUILD ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_subdirectory(%s evoq EXCLUDE_FROM_ALL)
add_executable(small %s/examples/runtime/run_etm.c)
target_link_libraries(small PRIVATE evoq::evoq_runtime)
add_executable(whole %s/examples/runtime/run_etm.c)
target_link_libraries(whole PRIVATE evoq::evoq_runtime_static)
install(TARGETS small)
"""
failures = []


def check(what, holds, detail=""):
    print(f"{'ok' if holds else 'FAILED'}: {what}{': ' if detail else ''}{detail}")
    if not holds:
        failures.append(what)


def said(*command, **more):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **more)
    if done.returncode != 0:
        check(" ".join(map(str, command[:3])), False, done.stdout[-1000:] + done.stderr[-1000:])
    return done.stdout


def check_exports(library):
    """libevoq's own names alone: no instantiations of the C++ library, of JSON or of fmt."""
    lines = said("nm", "-DC", "--defined-only", library).splitlines()
    names = [line.split(" ", 2)[2] for line in lines if len(line.split(" ", 2)) == 3]
    classes = "Array|Session|Streams|ElementBytes|LoadImage|Version|language|nn|toolchain"
    own = rf"evoq_|evoq::({classes})\b"
    others = [name for name in names if not re.match(own, name)]
    check(
        "libevoq exports what headers declare",
        len(names) > 100 and not others,
        " ".join(others[:3]),
    )


def check_runtime(work, run, output):
    """The component that has libevoq_runtime alone."""
    prefix = work / "runtime"
    said("cmake", "--install", agree.BUILD, "--prefix", prefix, "--component", "runtime")
    libraries = {path.name.split(".so")[0] for path in prefix.rglob("*.so*")}
    check("runtime: its library alone", libraries == {"libevoq_runtime"}, " ".join(libraries))
    work = work / "runtime_program"
    work.mkdir()
    (work / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(product LANGUAGES C)\n"
        "find_package(evoq REQUIRED COMPONENTS evoq_runtime OPTIONAL_COMPONENTS evoq)\n"
        "if(evoq_evoq_FOUND OR TARGET evoq::evoq)\n  message(FATAL_ERROR whole)\nendif()\n"
        f"add_executable(small {agree.ROOT}/examples/runtime/run_etm.c)\n"
        "target_link_libraries(small PRIVATE evoq::evoq_runtime)\n"
    )
    said("cmake", "-S", work, "-B", work / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    said("cmake", "--build", work / "build")
    output.unlink(missing_ok=True)
    said(work / "build/small", *run)
    check("runtime: a program runs", output.exists())
    lines = (work / "CMakeLists.txt").read_text().replace("evoq_runtime OPTIONAL_COMPONENTS", "")
    (work / "CMakeLists.txt").write_text(lines)
    again = ["cmake", "-S", work, "-B", work / "other", f"-DCMAKE_PREFIX_PATH={prefix}"]
    done = subprocess.run(list(map(str, again)), capture_output=True, text=True)
    told = "libevoq is not installed" in done.stderr
    check("runtime: no libevoq in it", told, done.stderr[-300:])


def check_part(work, cache):
    """A project around evoq: what it would build, without the hours that it takes to."""
    work.mkdir()
    (work / "CMakeLists.txt").write_text(AROUND % (agree.ROOT, agree.ROOT, agree.ROOT))
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)", cache, re.M)[1]
    build = work / "build"
    said("cmake", "-S", work, "-B", build, f"-DCMAKE_CXX_COMPILER={compiler}")
    commands = build / "compile_commands.json"
    made = json.loads(commands.read_text()) if commands.exists() else []
    ours = [c for c in made if "/evoq/" in c["directory"] or c["directory"].endswith("/evoq")]
    check("add_subdirectory: configures", len(ours) > 100, f"{len(ours)} sources")
    lost = [c["file"] for c in ours if not c["file"].startswith((str(agree.ROOT), str(build)))]
    check("add_subdirectory: sources are evoq's", not lost, " ".join(lost[:3]))
    inner = [c["file"] for c in ours if re.search("_test.cc$|_bench.cc$|/examples/", c["file"])]
    check("add_subdirectory: no tests, no examples", not inner, " ".join(inner[:3]))
    hidden = [c["file"] for c in ours if "=hidden" in c["command"] or "unity" in c["file"]]
    check("add_subdirectory: settings are evoq's", not hidden, " ".join(hidden[:3]))
    small = [c["command"] for c in made if c not in ours]
    leaks = [c for c in small if "HWY" in c or "/src" in c.split(" -c ")[0]]
    check(
        "add_subdirectory: programs get no flags of evoq",
        len(small) == 2 and not leaks,
        " ".join(leaks),
    )
    scripts = [path.read_text() for path in build.rglob("cmake_install.cmake")]
    check("add_subdirectory: installs nothing", not any("evoq_c.h" in s for s in scripts))


def main():
    cache = (agree.BUILD / "CMakeCache.txt").read_text(encoding="utf-8")
    tools = [shutil.which(tool) for tool in ("cc", "c++", "cmake", "pkg-config")]
    if not all(tools) or re.search(r"^EVOQ_SANITIZE:\w+=\S", cache, re.M):
        print("skipped: tools are missing, or the build has sanitizers")
        return 77
    with tempfile.TemporaryDirectory(prefix="evoq_install_") as name:
        work = pathlib.Path(name)
        said("cmake", "--install", agree.BUILD, "--prefix", work / "first")
        (work / "first").rename(work / "moved")
        prefix = work / "moved"
        files = [str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()]
        strangers = [f for f in files if f.split("/")[0] not in ("bin", "include", "lib", "share")]
        check("nothing lies beside bin, include, lib and share", not strangers, " ".join(strangers))
        check("the licence", any(f.endswith("doc/evoq/LICENSE") for f in files))
        model, inputs, output = work / "m.etm", work / "in.bin", work / "out.bin"
        agree.evoq("zoo", "lenet", "-o", work / "m.onnx")
        agree.evoq("compile", work / "m.onnx", "-o", model)
        inputs.write_bytes(bytes(4 * 28 * 28))
        (work / "whole.cc").write_text(WHOLE)
        (work / "CMakeLists.txt").write_text(PROJECT % agree.ROOT)
        options = [f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release"]
        said("cmake", "-S", work, "-B", work / "build", *options)
        said("cmake", "--build", work / "build")
        got = said(work / "build/whole", model)
        check("find_package: libevoq runs", got == "loaded\n", got)
        run = [model, inputs, output, 1, 1, 28, 28]
        said(work / "build/small", *run)
        check("find_package: libevoq_runtime runs", output.exists() and output.stat().st_size == 40)
        check_exports(next(prefix.rglob("libevoq.so")))
        found = list(prefix.rglob("pkgconfig"))
        environment = {**os.environ, "PKG_CONFIG_PATH": str(found[0]) if found else ""}
        version = said("pkg-config", "--modversion", "evoq", env=environment)
        flags = said("pkg-config", "--cflags", "--libs", "evoq_runtime", env=environment).split()
        libraries = next(flag[2:] for flag in flags if flag.startswith("-L"))
        output.unlink(missing_ok=True)
        source = agree.ROOT / "examples/runtime/run_etm.c"
        program = work / "by_pc"
        said("cc", source, *flags, f"-Wl,-rpath,{libraries}", "-o", program)
        said(program, *run)
        check("pkg-config: libevoq_runtime runs", output.exists(), f"version {version.strip()}")
        outside = [p for p in flags if str(prefix) not in os.path.normpath(p[2:]) and p[:2] != "-l"]
        check("no path of the build", not outside, " ".join(outside))
        check_runtime(work, run, output)
        check_part(work / "around", cache)
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
