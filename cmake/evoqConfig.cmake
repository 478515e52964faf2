# find_package(evoq): the targets evoq::evoq and evoq::evoq_runtime, those that are installed. As
# COMPONENTS they may be asked for.
foreach(evoq_library IN ITEMS evoq evoq_runtime)
  include(${CMAKE_CURRENT_LIST_DIR}/${evoq_library}Targets.cmake OPTIONAL
          RESULT_VARIABLE evoq_targets)
  if(evoq_targets)
    set(evoq_${evoq_library}_FOUND TRUE)
  endif()
endforeach()
foreach(evoq_library IN LISTS evoq_FIND_COMPONENTS)
  if(evoq_FIND_REQUIRED_${evoq_library} AND NOT evoq_${evoq_library}_FOUND)
    set(evoq_FOUND FALSE)
    set(evoq_NOT_FOUND_MESSAGE "lib${evoq_library} is not installed in ${CMAKE_CURRENT_LIST_DIR}")
  endif()
endforeach()
unset(evoq_library)
unset(evoq_targets)
