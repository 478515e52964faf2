#!/usr/bin/env python3
"""What is under deploy/: manifests by Kubernetes' schemas (kubernetes-validate from PyPI, strictly,
for the oldest and the newest version that it knows from 1.30 on), those of KServe by the models of
its own SDK (kserve from PyPI), what they name of each other, the options and paths that they name
of `evoq serve`, the image's libraries, and nginx's configuration. Parts whose package or program
is missing are left out with a line; without PyYAML all is skipped (exit status 77)."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import agree

agree.need("yaml")
import yaml

DEPLOY = agree.ROOT / "deploy"
OLDEST = (1, 30)  # preStop's sleep
failures = []


def check(what, holds, detail=""):
    print("ok:" if holds else "FAILED:", what, "" if holds else detail, flush=True)
    if not holds:
        failures.append(what)


def manifests():
    """(file, document) of each."""
    return [
        (path.relative_to(DEPLOY), document)
        for path in sorted(DEPLOY.glob("*/*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]


def check_kubernetes(documents):
    if importlib.util.find_spec("kubernetes_validate") is None:
        print("skipped: no package kubernetes-validate: schemas of Kubernetes")
        return
    from kubernetes_validate import utils as validate

    versions = sorted(
        version
        for version in (tuple(map(int, v.split(".")[:2])) for v in validate.all_versions())
        if version >= OLDEST
    )
    for version in {versions[0], versions[-1]}:
        for file, document in documents:
            try:
                validate.validate(document, ".".join(map(str, version)), strict=True)
                problem = ""
            except Exception as error:  # of several kinds
                problem = str(error)
            what = f"{file}: {document['kind']} by the schema of {version[0]}.{version[1]}"
            check(what, not problem, problem)
    broken = json.loads(json.dumps(next(d for f, d in documents if d["kind"] == "Deployment")))
    broken["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    try:
        validate.validate(broken, ".".join(map(str, versions[-1])), strict=True)
        check("a field that is misspelt is refused", False)
    except validate.ValidationError:
        check("a field that is misspelt is refused", True)


def misfits(models, kind, value, place=""):
    """Where the value is not what the SDK's model of that kind, or a type as 'list[V1Container]',
    takes."""
    if kind.startswith("list["):
        if not isinstance(value, list):
            return [f"{place}: {value!r}, expected a list"]
        return [
            problem
            for i, item in enumerate(value)
            for problem in misfits(models, kind[5:-1], item, f"{place}[{i}]")
        ]
    if kind.startswith("dict("):
        return [] if isinstance(value, dict) else [f"{place}: {value!r}, expected an object"]
    plain = {"str": str, "int": int, "bool": bool, "float": (int, float)}
    if kind in plain:
        fits = isinstance(value, plain[kind]) and (kind == "bool" or not isinstance(value, bool))
        return [] if fits else [f"{place}: {value!r}, expected {kind}"]
    model = next((getattr(m, kind) for m in models if hasattr(m, kind)), None)
    if model is None:  # as object, or a quantity
        return []
    if not isinstance(value, dict):
        return [f"{place}: {value!r}, expected an object ({kind})"]
    types = {name: model.openapi_types[key] for key, name in model.attribute_map.items()}
    problems = [f"{place}.{key}: no field of {kind}" for key in value if key not in types]
    for key, item in value.items():
        if key in types:
            problems += misfits(models, types[key], item, f"{place}.{key}")
    return problems


def check_kserve(documents):
    if importlib.util.find_spec("kserve") is None:
        print("skipped: no package kserve: schemas of KServe")
        return
    import kserve
    from kubernetes import client

    kinds = {
        "ServingRuntime": "V1alpha1ServingRuntime",
        "InferenceService": "V1beta1InferenceService",
    }
    for file, document in documents:
        found = misfits((kserve, client), kinds[document["kind"]], document)
        check(f"{file}: {document['kind']} by KServe's models", not found, "; ".join(found))
        document["spec"]["containerz"] = []
        found = misfits((kserve, client), kinds[document["kind"]], document)
        check(f"{file}: a field that is misspelt is found", len(found) == 1, str(found))
        del document["spec"]["containerz"]


def of_kind(documents, kind):
    return [d for _, d in documents if d["kind"] == kind]


def check_names(documents):
    """What the manifests name of each other."""
    (deployment,) = of_kind(documents, "Deployment")
    pod = deployment["spec"]["template"]
    labels = pod["metadata"]["labels"]
    check(
        "the deployment selects its pods", deployment["spec"]["selector"]["matchLabels"] == labels
    )
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for service in of_kind(documents, "Service"):
        name = service["metadata"]["name"]
        check(f"service {name} selects the pods", service["spec"]["selector"] == labels)
        wanted = {port["targetPort"] for port in service["spec"]["ports"]}
        check(f"service {name}'s ports are the container's", wanted <= set(ports), str(wanted))
    (scaler,) = of_kind(documents, "HorizontalPodAutoscaler")
    check(
        "the autoscaler scales the deployment",
        scaler["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"],
    )
    (claim,) = of_kind(documents, "PersistentVolumeClaim")
    (volume,) = pod["spec"]["volumes"]
    (mount,) = container["volumeMounts"]
    check(
        "the pods mount the claim",
        volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
        and mount["name"] == volume["name"],
    )
    (runtime,) = of_kind(documents, "ServingRuntime")
    (service,) = of_kind(documents, "InferenceService")
    model = service["spec"]["predictor"]["model"]
    formats = [f["name"] for f in runtime["spec"]["supportedModelFormats"]]
    check(
        "the InferenceService's model is one of the runtime",
        model["runtime"] == runtime["metadata"]["name"]
        and model["modelFormat"]["name"] in formats
        and model["protocolVersion"] in runtime["spec"]["protocolVersions"],
    )
    return container, runtime["spec"]["containers"][0]


def check_server(container, kserve_container):
    """Options and paths are those of `evoq serve`, ports those of the image."""
    image = (DEPLOY / "Dockerfile").read_text()
    entry = json.loads(re.search(r"^ENTRYPOINT (\[.*?\])", image.replace("\\\n", " "), re.M)[1])
    exposed = {int(port) for port in re.search(r"^EXPOSE (.*)$", image, re.M)[1].split()}
    ports = {port["containerPort"] for port in container["ports"]}
    check("the image exposes the deployment's ports", exposed == ports, f"{exposed} {ports}")
    drain = next(float(a.partition("=")[2]) for a in container["args"] if "--drain-s" in a)
    deployment = yaml.safe_load((DEPLOY / "kubernetes/deployment.yaml").read_text())
    pod = deployment["spec"]["template"]["spec"]
    sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    check("a pod may drain", pod["terminationGracePeriodSeconds"] > drain + sleep)
    told = subprocess.run([agree.EVOQ, "serve", "--help"], capture_output=True, text=True).stdout
    if "Usage" not in told:
        print("skipped: an evoq without `serve`: options and probes")
        return
    commands = {
        "deployment": entry + container["args"],
        "serving runtime": kserve_container["command"] + kserve_container["args"],
    }
    for what, command in commands.items():
        check(f"{what}: it runs evoq serve", command[:2] == ["evoq", "serve"], str(command))
        for option in command[2:]:
            name = option.partition("=")[0]
            known = re.search(rf"(?:^|[ ,]){name}(?![\w-])", told, re.M)
            check(f"{what}: {name} is an option", known is not None)
    from serving import Serving

    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        digits = agree.ROOT / "examples/digits/digits.onnx"
        shutil.copy(digits, work / "digits.onnx")
        with Serving(work) as server:
            paths = {
                probe["httpGet"]["path"]
                for c in (container, kserve_container)
                for key, probe in c.items()
                if key.endswith("Probe")
            } | {"/metrics"}
            for path in sorted(paths):
                status, _, _ = server.ask("GET", path)
                check(f"{path} answers", status == 200, str(status))


def check_image():
    """The libraries of the image are those that the program asks for, on the image's Debian."""
    image = (DEPLOY / "Dockerfile").read_text()
    check("its tools/setup.sh is there", (agree.ROOT / "tools/setup.sh").exists())
    bases = set(re.findall(r"^FROM debian:(\d+)", image, re.M))
    release = pathlib.Path("/etc/os-release")
    here = (
        re.search(r'^VERSION_ID="?(\d+)', release.read_text(), re.M) if release.exists() else None
    )
    if shutil.which("dpkg") is None or here is None or bases != {here[1]} or agree.SANITIZED:
        print(f"skipped: the image's libraries, which are those of Debian {bases}")
        return
    listed = set(re.search(r"no-install-recommends \\\n((?:.*\\\n)*?)  && rm", image)[1].split())
    listed.discard("\\")
    files = re.findall(r"=> (/\S+)", subprocess.check_output(["ldd", agree.EVOQ], text=True))
    owners = set()
    for file in files:
        for path in (file, os.path.realpath(file), "/usr" + file):
            owner = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True).stdout
            if owner:
                owners.add(owner.partition(":")[0])
                break
        else:
            check(f"{file} is of a package", False)
    owners -= {"libc6", "libgcc-s1"}  # in every image
    check("the image has the program's libraries", owners == listed, f"{owners ^ listed}")


def check_nginx():
    from serving import nginx_program

    nginx = nginx_program()
    if nginx is None:
        print("skipped: no nginx: its configuration")
        return
    with tempfile.TemporaryDirectory() as folder:
        # Not the folders of an installed one.
        folders = "access_log off;\n" + "".join(
            f"{what}_temp_path {folder}/{what};\n"
            for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        text = (DEPLOY / "nginx.conf").read_text().replace("\nhttp {\n", "\nhttp {\n" + folders)
        text = f"pid {folder}/nginx.pid;\n" + text
        file = pathlib.Path(folder) / "nginx.conf"
        file.write_text(text)
        done = subprocess.run(
            [nginx, "-t", "-p", folder, "-e", "stderr", "-c", str(file)],
            capture_output=True,
            text=True,
        )
        check("nginx takes its configuration", done.returncode == 0, done.stderr)


def main():
    documents = manifests()
    check("there are manifests", len(documents) == 8, str(len(documents)))
    check_kubernetes([(f, d) for f, d in documents if f.parts[0] == "kubernetes"])
    check_kserve([(f, d) for f, d in documents if f.parts[0] == "kserve"])
    check_server(*check_names(documents))
    check_image()
    check_nginx()
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
