# Headers that most files include, parsed once: those of the standard library and of the
# distribution, and none of evoq's. Nothing in a NAME.pch tells the folder that it was made in, so
# that what ccache keeps serves every checkout (what target_precompile_headers makes names a file of
# the build folder). Clang only; g++ builds without, which also shows what a file forgot to include.

# Not as a part of another project, whose definitions and options they would not have.
option(EVOQ_PRECOMPILED "Parse the distribution's headers once (clang only)"
       ${PROJECT_IS_TOP_LEVEL})

# evoq_precompile(NAME FLAGS flag... LIBS target... HEADERS header...): makes NAME.pch for sources
# that are compiled with the flags and with those of evoq_flags. The last header has include guards
# and is one of a library's: it is the main file.
function(evoq_precompile name)
  cmake_parse_arguments(arg "" "" "FLAGS;LIBS;HEADERS" ${ARGN})
  if(NOT EVOQ_PRECOMPILED OR NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    return()
  endif()
  set(pch ${PROJECT_BINARY_DIR}/precompiled/${name}.pch)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/precompiled)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  list(APPEND flags ${CMAKE_CXX20_STANDARD_COMPILE_OPTION} ${arg_FLAGS})
  if(CMAKE_CROSSCOMPILING)
    list(APPEND flags --target=${CMAKE_CXX_COMPILER_TARGET} --sysroot=${CMAKE_SYSROOT})
  endif()
  foreach(lib evoq_flags ${arg_LIBS})
    set(defines $<TARGET_PROPERTY:${lib},INTERFACE_COMPILE_DEFINITIONS>)
    set(folders $<TARGET_PROPERTY:${lib},INTERFACE_INCLUDE_DIRECTORIES>)
    list(APPEND flags "$<$<BOOL:${defines}>:-D$<JOIN:${defines},$<SEMICOLON>-D>>"
                      "$<TARGET_PROPERTY:${lib},INTERFACE_COMPILE_OPTIONS>")
    if(NOT lib STREQUAL evoq_flags)
      list(APPEND flags "$<$<BOOL:${folders}>:-I$<JOIN:${folders},$<SEMICOLON>-I>>")
    endif()
  endforeach()
  list(POP_BACK arg_HEADERS main)
  find_file(EVOQ_MAIN_HEADER_${name} ${main} REQUIRED)
  list(TRANSFORM arg_HEADERS PREPEND "-include;" OUTPUT_VARIABLE includes)
  add_custom_command(OUTPUT ${pch} DEPFILE ${pch}.d VERBATIM COMMAND_EXPAND_LISTS
                     COMMAND ${CMAKE_CXX_COMPILER} ${flags} -Xclang -fno-pch-timestamp
                             -fpch-instantiate-templates ${includes}
                             -MD -MT ${pch} -MF ${pch}.d -x c++-header
                             ${EVOQ_MAIN_HEADER_${name}} -o ${pch})
  add_custom_target(evoq_precompiled_${name} DEPENDS ${pch})
endfunction()

# The target's sources include NAME.pch, but for those with options of their own.
function(evoq_use_precompiled target name)
  if(NOT TARGET evoq_precompiled_${name})
    return()
  endif()
  set(pch ${PROJECT_BINARY_DIR}/precompiled/${name}.pch)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  foreach(source IN LISTS sources)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(NOT options)
      set_property(SOURCE ${source} PROPERTY COMPILE_OPTIONS -include-pch ${pch})
      set_property(SOURCE ${source} APPEND PROPERTY OBJECT_DEPENDS ${pch})
    endif()
  endforeach()
  add_dependencies(${target} evoq_precompiled_${name})
endfunction()
