# Turns src/rooms.txt into targets: a static library evoq_ROOM from src/ROOM/**/*.cc, a test binary
# evoq_ROOM_test from *_test.cc, a benchmark binary evoq_ROOM_bench from *_bench.cc. Files are found
# by name, so that adding an operator, a kernel or a test never edits a build file. A room with a
# CMakeLists.txt says its own.
#   NAME_SET.cc, where SET is avx2, avx2_vnni, avx2_vnni_evex, avx512, amx, amx_software, neon,
#   neon_dot, neon_i8mm or neon_bf16, is compiled for that instruction set, and only on its
#   processor.
#   NAME_each.cc is compiled once for each instruction set of the processor, whose namespace it
#   finds as EVOQ_ISA: scalar, avx2, avx512.

add_library(evoq_flags INTERFACE)
target_include_directories(evoq_flags INTERFACE ${PROJECT_SOURCE_DIR}/src
                                                ${PROJECT_SOURCE_DIR}/include)
target_include_directories(evoq_flags SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/generated)
# What nothing calls can be left out of a library function by function.
target_compile_options(evoq_flags INTERFACE -ffunction-sections -fdata-sections)
target_compile_options(evoq_flags INTERFACE -Wall -Wextra -Wno-sign-compare
                                            -Wno-missing-field-initializers
                                            -fno-math-errno -fno-trapping-math
                                            # One rounding per written operation: results are equal
                                            # on every machine.
                                            -ffp-contract=off)
target_compile_definitions(evoq_flags INTERFACE HWY_WANT_AVX3_DL=1)
# A library of which only headers are used is not mapped into every process.
target_link_options(evoq_flags INTERFACE LINKER:--as-needed)
if(EVOQ_WERROR)
  target_compile_options(evoq_flags INTERFACE -Werror)
endif()
if(EVOQ_SANITIZE)
  target_compile_options(evoq_flags INTERFACE -fsanitize=${EVOQ_SANITIZE} -fno-omit-frame-pointer
                                              -fno-sanitize-recover=all)
  target_link_options(evoq_flags INTERFACE -fsanitize=${EVOQ_SANITIZE})
  target_compile_definitions(evoq_flags INTERFACE EVOQ_FEW_VARIANTS=1)  # kernels/variants.h
endif()
if(EVOQ_FUZZ AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(evoq_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(evoq_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(tl-expected REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Protobuf REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
if(EVOQ_SERVER)
  find_package(Boost 1.74 REQUIRED)
  find_package(OpenSSL REQUIRED)
  find_package(prometheus-cpp REQUIRED CONFIG)
  pkg_check_modules(GRPC REQUIRED grpc++)
  find_library(SIMDJSON_LIBRARY simdjson REQUIRED)
  # As archives: each start of the program would load 46 shared libraries of theirs. What others
  # share (TLS, compression, expressions) stays shared.
  foreach(library IN LISTS GRPC_STATIC_LIBRARIES)
    if(library MATCHES "^(grpc|gpr|upb|address_sorting|absl_)")
      find_library(EVOQ_ARCHIVE_${library} lib${library}.a REQUIRED)
      list(APPEND EVOQ_GRPC_LIBRARIES ${EVOQ_ARCHIVE_${library}})
    elseif(library MATCHES "^(re2|cares|z|ssl|crypto)$")
      list(APPEND EVOQ_GRPC_LIBRARIES ${library})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES EVOQ_GRPC_LIBRARIES)
endif()
find_program(FLATC flatc REQUIRED)
find_library(CPUINFO_LIBRARY cpuinfo REQUIRED)
find_library(RE2_LIBRARY re2 REQUIRED)
find_library(ONNX_PROTO_LIBRARY onnx_proto REQUIRED)

# What each room takes from the distribution; a library is named by the one room that wraps it.
set(EVOQ_LIBS_base fmt::fmt tl::expected nlohmann_json::nlohmann_json Threads::Threads
                   ${CPUINFO_LIBRARY})
set(EVOQ_LIBS_kernels PkgConfig::HWY)
set(EVOQ_LIBS_cli CLI11::CLI11)
set(EVOQ_LIBS_data JPEG::JPEG PNG::PNG ZLIB::ZLIB)
set(EVOQ_LIBS_tokenizer PkgConfig::PCRE2 PkgConfig::UTF8PROC)
set(EVOQ_LIBS_reference ${RE2_LIBRARY})
set(EVOQ_LIBS_onnx ${ONNX_PROTO_LIBRARY} protobuf::libprotobuf)
set(EVOQ_LIBS_program flatbuffers PkgConfig::ZSTD)
set(EVOQ_LIBS_encodings flatbuffers)
set(EVOQ_LIBS_tflite flatbuffers)
set(EVOQ_LIBS_serve Boost::headers OpenSSL::SSL prometheus-cpp::core ${EVOQ_GRPC_LIBRARIES}
                   protobuf::libprotobuf ${SIMDJSON_LIBRARY})

set(EVOQ_AVX2_FLAGS -mavx2 -mfma -mf16c -mbmi2)
set(EVOQ_AVX2_VNNI_FLAGS ${EVOQ_AVX2_FLAGS} -mavxvnni)
set(EVOQ_AVX2_VNNI_EVEX_FLAGS ${EVOQ_AVX2_FLAGS} -mavx512vl -mavx512vnni
                             -mprefer-vector-width=256)
set(EVOQ_AVX512_FLAGS ${EVOQ_AVX2_FLAGS} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
                      -mprefer-vector-width=512)
set(EVOQ_AMX_FLAGS ${EVOQ_AVX512_FLAGS} -mavx512bf16 -mamx-tile -mamx-int8 -mamx-bf16)
set(EVOQ_AMX_SOFTWARE_FLAGS ${EVOQ_AVX512_FLAGS})
set(EVOQ_NEON_FLAGS -march=armv8-a)
set(EVOQ_NEON_DOT_FLAGS -march=armv8.2-a+dotprod)
set(EVOQ_NEON_I8MM_FLAGS -march=armv8.2-a+dotprod+i8mm)
set(EVOQ_NEON_BF16_FLAGS -march=armv8.2-a+bf16)
# Definitions that libevoq_runtime has, of operators that kernels run: a loop for each element type.
set(EVOQ_SMALL_DEFINITIONS "add|binary|cast|logic|reduce|unary")
set(EVOQ_SMALL ops engine compile program graph tensor/attrs reference/evaluate
    "kernels/(activation|backend|cpu_model|derived|layout|slower|ways|window)"
    "kernels/gemm/(experts|int8_geometry|int8_kernels|int8_variants|layout_blocks|layout_k4n16)"
    "kernels/gemm/(dynamic_int8|matmul_pair_int8|pair_product)" "kernels/dwconv/dwconv_call"
    "kernels/gemm/blocks/(layout_low_bits|scale_steps|weights)"
    "kernels/norm/topk" "kernels/recurrent/(sequence|weights)"
    "kernels/conv/conv_shape_f32" "kernels/attention/(attention_call|quantized_attention)")
list(JOIN EVOQ_SMALL "|" EVOQ_SMALL)

set(EVOQ_HEADERS algorithm array atomic chrono cmath cstdint cstring filesystem functional limits
                 map memory mutex numeric optional set span string string_view thread utility
                 variant vector nlohmann/json.hpp tl/expected.hpp fmt/format.h)
set(EVOQ_HEADER_LIBS fmt::fmt nlohmann_json::nlohmann_json tl::expected)
evoq_precompile(room HEADERS ${EVOQ_HEADERS} LIBS ${EVOQ_HEADER_LIBS}
                FLAGS ${CMAKE_CXX_COMPILE_OPTIONS_PIC})
if(EVOQ_TESTS)
  find_package(GTest REQUIRED)
  evoq_precompile(test HEADERS ${EVOQ_HEADERS} fstream random gtest/gtest.h
                  LIBS ${EVOQ_HEADER_LIBS} GTest::gtest FLAGS ${CMAKE_CXX_COMPILE_OPTIONS_PIE})
endif()

# A test binary evoq_NAME_test of the given sources and libraries, where tests are built:
#   evoq_add_test(NAME SOURCES file... LIBS target... [FOLDER folder below the build folder])
function(evoq_add_test name)
  cmake_parse_arguments(arg "" "FOLDER" "SOURCES;LIBS" ${ARGN})
  if(NOT EVOQ_TESTS OR NOT arg_SOURCES)
    return()
  endif()
  set(target evoq_${name}_test)
  add_executable(${target} ${arg_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE ${arg_LIBS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE EVOQ_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  set_target_properties(${target} PROPERTIES
                        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${arg_FOLDER})
  evoq_use_precompiled(${target} test)
  add_test(NAME ${name} COMMAND ${target})
endfunction()

function(evoq_read_rooms file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(STRINGS ${file} lines REGEX "^[a-z]")
  set(rooms "")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([a-z]+): *(.*)$" _ "${line}")
    set(room ${CMAKE_MATCH_1})
    string(REPLACE " " ";" deps "${CMAKE_MATCH_2}")
    list(APPEND rooms ${room})
    set(EVOQ_DEPS_${room} ${deps} PARENT_SCOPE)
  endforeach()
  set(EVOQ_ROOMS ${rooms} PARENT_SCOPE)
endfunction()

# Sets per-file flags for instruction-set files and drops those of another processor.
function(evoq_isa_files list_name)
  set(kept "")
  foreach(source IN LISTS ${list_name})
    if(source MATCHES "_(avx2|avx2_vnni|avx2_vnni_evex|avx512|amx|amx_software)\\.cc$")
      set(isa ${CMAKE_MATCH_1})
      if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        continue()
      endif()
      string(TOUPPER ${isa} isa)
      set(options ${EVOQ_${isa}_FLAGS})
      if(source MATCHES "/logic_")
        # Every comparison of every type: each loop in one copy, which memory bounds as well.
        list(APPEND options -fno-unroll-loops)
      endif()
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${options}")
    elseif(source MATCHES "_(neon|neon_dot|neon_i8mm|neon_bf16)\\.cc$")
      string(TOUPPER ${CMAKE_MATCH_1} isa)
      if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
        continue()
      endif()
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${EVOQ_${isa}_FLAGS}")
    elseif(source MATCHES "_scalar\\.cc$" AND NOT source MATCHES "/binary_scalar\\.cc$"
           AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      # What runs there only where AVX2 is missing need not be large. Loops over two operands get
      # larger where their functions are not inlined.
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -Os)
    elseif(source MATCHES "/reference/(${EVOQ_SMALL_DEFINITIONS})\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -Os)
    elseif(source MATCHES "/src/serve/(connection|server|grpc_call|grpc_server|rpc)\\.cc$")
      # They wait for the network; the templates that they are made of take minutes at -O3.
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -O1)
    elseif(source MATCHES "/src/(${EVOQ_SMALL})[/.]" AND NOT source MATCHES "_test\\.cc$")
      # Files are read, types inferred, programs and engines made when a model is loaded or meets
      # new sizes; between runs an engine looks up what is there. Of kernels what reads a call and
      # binds it, products of experts, which are those of other kernels, and the few of many.
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -Os)
    endif()
    list(APPEND kept ${source})
  endforeach()
  set(${list_name} ${kept} PARENT_SCOPE)
endfunction()

# Compiles sources once for each instruction set, into objects that the room's library takes in.
function(evoq_each_isa room links sources)
  set(isas scalar)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND isas avx2 avx512)
  endif()
  foreach(isa IN LISTS isas)
    string(TOUPPER ${isa} flags)
    add_library(evoq_${room}_${isa} OBJECT ${sources})
    target_link_libraries(evoq_${room}_${isa} PRIVATE ${links})
    target_compile_definitions(evoq_${room}_${isa} PRIVATE EVOQ_ISA=${isa})
    target_compile_options(evoq_${room}_${isa} PRIVATE ${EVOQ_${flags}_FLAGS})
    if(isa STREQUAL scalar AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      target_compile_options(evoq_${room}_${isa} PRIVATE -Os)  # as above: AVX2 is missing nowhere
    endif()
    target_sources(evoq_${room} PRIVATE $<TARGET_OBJECTS:evoq_${room}_${isa}>)
  endforeach()
endfunction()

# Adds what protoc makes of the room's .proto files to a list of sources: "ROOM/NAME.pb.h".
function(evoq_generate_messages room list_name)
  file(GLOB protos CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*.proto)
  foreach(proto IN LISTS protos)
    get_filename_component(stem ${proto} NAME_WE)
    set(made ${PROJECT_BINARY_DIR}/generated/${room}/${stem}.pb)
    add_custom_command(OUTPUT ${made}.cc ${made}.h DEPENDS ${proto}
                       COMMAND ${PROTOBUF_PROTOC_EXECUTABLE} --proto_path=${PROJECT_SOURCE_DIR}/src
                               --cpp_out=${PROJECT_BINARY_DIR}/generated ${proto})
    # Messages of a few members: nothing is gained by more.
    set_source_files_properties(${made}.cc PROPERTIES COMPILE_OPTIONS "-O1;-w")
    list(APPEND ${list_name} ${made}.cc ${made}.h)
  endforeach()
  set(${list_name} ${${list_name}} PARENT_SCOPE)
endfunction()

function(evoq_add_rooms)
  foreach(room IN LISTS EVOQ_ROOMS)
    if(EXISTS ${PROJECT_SOURCE_DIR}/src/${room}/CMakeLists.txt)
      continue()
    endif()
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*.cc)
    set(tests ${sources})
    set(benches ${sources})
    list(FILTER tests INCLUDE REGEX "_test\\.cc$")
    list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
    set(each ${sources})
    list(FILTER each INCLUDE REGEX "_each\\.cc$")
    list(FILTER sources EXCLUDE REGEX "_(test|bench|each)\\.cc$|/main\\.cc$|/parts_runtime\\.cc$")
    if(room STREQUAL serve AND NOT EVOQ_SERVER)
      set(sources "")
      set(tests "")
    endif()
    evoq_isa_files(sources)
    file(GLOB schemas CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*.fbs)
    foreach(schema IN LISTS schemas)
      get_filename_component(stem ${schema} NAME_WE)
      set(header ${PROJECT_BINARY_DIR}/generated/${room}/${stem}_generated.h)
      add_custom_command(OUTPUT ${header} DEPENDS ${schema}
                         COMMAND ${FLATC} --cpp --no-prefix --gen-object-api --reflect-types
                                 -o ${PROJECT_BINARY_DIR}/generated/${room} ${schema})
      list(APPEND sources ${header})
    endforeach()
    if(sources)
      evoq_generate_messages(${room} sources)
    endif()
    set(links evoq_flags ${EVOQ_LIBS_${room}})
    if(room STREQUAL serve AND NOT EVOQ_SERVER)
      set(links evoq_flags)
    endif()
    foreach(dep IN LISTS EVOQ_DEPS_${room})
      list(APPEND links evoq_${dep})
    endforeach()
    if(sources)
      add_library(evoq_${room} STATIC ${sources})
      target_link_libraries(evoq_${room} PUBLIC ${links})
      evoq_use_precompiled(evoq_${room} room)
      if(each)
        evoq_each_isa(${room} "${links}" "${each}")
      endif()
    else()
      add_library(evoq_${room} INTERFACE)
      target_link_libraries(evoq_${room} INTERFACE ${links})
    endif()
    evoq_add_test(${room} SOURCES ${tests} LIBS evoq_${room})
    if(EVOQ_BENCH AND benches)
      find_package(benchmark REQUIRED)
      add_executable(evoq_${room}_bench ${benches})
      target_link_libraries(evoq_${room}_bench PRIVATE evoq_${room} benchmark::benchmark_main)
    endif()
  endforeach()
endfunction()

# Gives src/ROOM/SOURCE the path of a file, which it takes in with .incbin, as the macro NAME.
function(evoq_embed room source name path)
  set(file ${PROJECT_SOURCE_DIR}/src/${room}/${source})
  set_property(SOURCE ${file} TARGET_DIRECTORY evoq_${room} APPEND PROPERTY
               COMPILE_DEFINITIONS ${name}="${path}")
  set_property(SOURCE ${file} TARGET_DIRECTORY evoq_${room} APPEND PROPERTY OBJECT_DEPENDS ${path})
endfunction()

# The programs of another tool chain (docs/ascend.md): links to evoq, verbs by their names alone.
set(EVOQ_PROGRAMS graph_opt atc benchmark perf_compare)

# The command, the public library, whole-program tests, benchmarks, examples and fuzzers: each
# folder says its own.
function(evoq_add_extras)
  evoq_embed(cli embedded.cc EVOQ_DIGITS_ONNX ${PROJECT_SOURCE_DIR}/examples/digits/digits.onnx)
  find_file(CHART_JS chart.min.js PATHS /usr/share/javascript/chart.js
            /usr/share/nodejs/chart.js/dist REQUIRED NO_CMAKE_FIND_ROOT_PATH)
  evoq_embed(report html.cc EVOQ_REPORT_HTML ${PROJECT_SOURCE_DIR}/src/report/html/report.html)
  evoq_embed(report html.cc EVOQ_CHART_JS ${CHART_JS})
  evoq_embed(report page.cc EVOQ_SENSITIVITY_HTML
             ${PROJECT_SOURCE_DIR}/src/report/html/sensitivity.html)
  if(EVOQ_SERVER)
    evoq_embed(serve status_page.cc EVOQ_STATUS_HTML ${PROJECT_SOURCE_DIR}/src/serve/status.html)
  endif()
  if(EXISTS ${PROJECT_SOURCE_DIR}/src/cli/main.cc)
    add_executable(evoq ${PROJECT_SOURCE_DIR}/src/cli/main.cc)
    target_link_libraries(evoq PRIVATE evoq_cli)
    if(EVOQ_SERVER)
      target_link_libraries(evoq PRIVATE evoq_serve)
      target_compile_definitions(evoq PRIVATE EVOQ_SERVER=1)
    endif()
    set_target_properties(evoq PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
    foreach(program IN LISTS EVOQ_PROGRAMS)
      add_custom_command(TARGET evoq POST_BUILD COMMAND ${CMAKE_COMMAND} -E create_symlink evoq
                         ${PROJECT_BINARY_DIR}/bin/${program})
    endforeach()
  endif()
  foreach(folder include examples tests bench src/python)
    if(folder STREQUAL examples AND NOT EVOQ_EXAMPLES)
      continue()
    endif()
    if(EXISTS ${PROJECT_SOURCE_DIR}/${folder}/CMakeLists.txt)
      add_subdirectory(${folder})
    endif()
  endforeach()
endfunction()
