# headwise_layer(NAME [OPTIMIZE 1|2|3] DEPENDS layers… LIBRARIES libs…): one
#   folder of src/headwise as the static target headwise_NAME. OPTIMIZE is what
#   its loops are worth of the compiler's time: 3 where they run over elements,
#   2 (the default), 1 where it only calls others. Its folders add files with
#   headwise_sources(NAME files…) and tests with headwise_test(NAME files…).
# Tests of a layer are one program, NAME_test, beside their sources. The target
# test_objects makes their objects, which a build with HEADWISE_TESTS_OF takes
# instead of compiling the tests again.
# headwise_threaded_tests(NAME filter) names the tests of a layer that the
# thread sanitizer is to see; the target threaded_tests builds them.

set(HEADWISE_LAYERS "" CACHE INTERNAL "")
# The library that has the kernels where a build does not make them for itself.
set(HEADWISE_KERNELS "")
if(HEADWISE_TESTS_OF)
  set(HEADWISE_KERNELS "${HEADWISE_TESTS_OF}/src/headwise/ops/libheadwise_ops.a")
endif()
add_custom_target(threaded_tests)
add_custom_target(test_objects)

# Parsing the standard library is half of a small file's time, so it is parsed
# once for each level of optimisation, and once with GoogleTest for the tests.
# Nothing of ours is in here: a change of ours would build all anew. Sources
# include what they use all the same: clang-tidy reads them without this.
set(library_headers
  <algorithm> <array> <cmath> <cstdint> <filesystem> <functional> <map>
  <memory> <numeric> <optional> <set> <span> <string> <string_view>
  <unordered_map> <utility> <vector> <fmt/format.h>)
set(test_headers <gmock/gmock.h> <gtest/gtest.h>)

# After CMake's own -O3 of release builds; what is 1 there is 0 under
# sanitizers. Kernels (3) are never compiled without: they would be many times
# slower, and after a precompiled fmt/format.h, which switches optimisation on
# for itself, g++ takes the intrinsics for those of optimised code, whose
# constants it then does not find. Programs are compiled as the library is
# (-fPIC, not -fPIE), or the compiler would turn the headers down.
function(headwise_optimize target level)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-fPIC>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O${level}>)
  if(level EQUAL 3)
    set(optimised $<CONFIG:Release,RelWithDebInfo,MinSizeRel>)
    target_compile_options(${target} PRIVATE
      $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:${optimised}>>:-O1>)
  endif()
  if(HEADWISE_SANITIZE AND level LESS 2)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
  endif()
endfunction()

# headwise_compile(TARGET LEVEL [tests]): how the target's sources are compiled.
function(headwise_compile target level)
  headwise_optimize(${target} ${level})
  set(shared headwise_precompiled_${level})
  set(headers ${library_headers})
  set(libraries fmt::fmt)
  if(ARGN)
    set(shared headwise_precompiled_tests_${level})
    list(APPEND headers ${test_headers})
    list(APPEND libraries GTest::gmock)
  endif()
  if(NOT TARGET ${shared})
    set(source "${PROJECT_BINARY_DIR}/${shared}.cc")
    file(CONFIGURE OUTPUT "${source}" CONTENT "// Headers alone.\n")
    add_library(${shared} OBJECT EXCLUDE_FROM_ALL "${source}")
    target_link_libraries(${shared} PRIVATE headwise_flags ${libraries})
    headwise_optimize(${shared} ${level})
    target_precompile_headers(${shared} PRIVATE ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${shared})
  if(HEADWISE_UNITY)
    set_target_properties(${target} PROPERTIES
      UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE "${HEADWISE_UNITY_SIZE}")
  endif()
endfunction()

function(headwise_layer name)
  cmake_parse_arguments(ARG "" "OPTIMIZE" "DEPENDS;LIBRARIES" ${ARGN})
  add_library(headwise_${name} STATIC)
  target_include_directories(headwise_${name} PUBLIC
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
  target_compile_definitions(headwise_${name} PRIVATE HEADWISE_BUILDING)
  list(TRANSFORM ARG_DEPENDS PREPEND headwise_)
  target_link_libraries(headwise_${name}
    PUBLIC ${ARG_DEPENDS} PRIVATE headwise_flags ${ARG_LIBRARIES})
  if(NOT ARG_OPTIMIZE)
    set(ARG_OPTIMIZE 2)
  endif()
  headwise_compile(headwise_${name} ${ARG_OPTIMIZE})
  set(HEADWISE_LAYERS ${HEADWISE_LAYERS} headwise_${name} CACHE INTERNAL "")
endfunction()

# headwise_alone(SOURCES…): never compiled together with others. Their own names
# (a margin, a point) are those of others too; or, of what stands in for
# something absent, a linker that is given the real thing must not take them.
function(headwise_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
function(headwise_sources layer)
  target_sources(headwise_${layer} PRIVATE ${ARGN})
endfunction()

# A test program, each part with a report that ./check counts. A long one is in
# two parts, so that it uses two cores; a sanitizer takes seconds for each.
set(long_tests api heads integration ops study train)
function(headwise_add_test name label)
  set(parts 0)
  if(name IN_LIST long_tests)
    list(APPEND parts 1)
  endif()
  list(LENGTH parts count)
  foreach(part ${parts})
    add_test(NAME ${name}.${part} COMMAND ${ARGN})
    set(report "${PROJECT_BINARY_DIR}/reports/${label}/${name}.${part}.json")
    set_tests_properties(${name}.${part} PROPERTIES
      LABELS ${label}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${count};GTEST_SHARD_INDEX=${part};GTEST_OUTPUT=json:${report}")
  endforeach()
endfunction()

# headwise_objects_below(TARGET out): the objects of a layer and of all that it
# stands on.
function(headwise_objects_below target out)
  set(found $<TARGET_OBJECTS:${target}>)
  get_target_property(libraries ${target} LINK_LIBRARIES)
  list(FILTER libraries INCLUDE REGEX "^headwise_[a-z0-9_]+$")
  list(REMOVE_ITEM libraries headwise_flags)
  foreach(library ${libraries})
    headwise_objects_below(${library} below)
    list(APPEND found ${below})
  endforeach()
  list(REMOVE_DUPLICATES found)
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# Takes the tests that another build has compiled. The layers' objects come
# first: of an inline function that both have, the linker keeps the first.
function(headwise_take_tests program layer)
  headwise_objects_below(headwise_${layer} objects)
  target_sources(${program} PRIVATE ${objects})
  set_target_properties(${program} PROPERTIES LINKER_LANGUAGE CXX)
  set(archive "${HEADWISE_TESTS_OF}/tests/lib${program}s.a")
  target_link_libraries(${program} PRIVATE
    "$<LINK_LIBRARY:WHOLE_ARCHIVE,${archive}>")
endfunction()

# headwise_test_program(NAME LAYER): the program NAME_test, of tests of what a
# layer offers. Its objects are also a library, for builds that take them.
function(headwise_test_program name layer)
  set(program ${name}_test)
  add_executable(${program})
  target_link_libraries(${program} PRIVATE
    headwise_${layer} headwise_flags fmt::fmt GTest::gmock GTest::gtest_main)
  set_target_properties(${program} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  headwise_add_test(${name} unit ${program})
  if(HEADWISE_TESTS_OF)
    headwise_take_tests(${program} ${layer})
    return()
  endif()
  # Tests of operators and heads loop over elements themselves: unoptimised,
  # the operators' loops would be most of a sanitizer's time.
  set(level 0)
  if(layer STREQUAL "ops" AND HEADWISE_SANITIZE)
    set(level 2)
  elseif(layer MATCHES "^(ops|heads)$")
    set(level 1)
  endif()
  headwise_compile(${program} ${level} tests)
  add_library(${program}s STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${program}>)
  set_target_properties(${program}s PROPERTIES
    ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  add_dependencies(test_objects ${program}s)
endfunction()

# headwise_test_sources(NAME files…): sources of the program NAME_test.
function(headwise_test_sources name)
  if(NOT HEADWISE_TESTS_OF)
    target_sources(${name}_test PRIVATE ${ARGN})
  endif()
endfunction()

function(headwise_test layer)
  if(NOT HEADWISE_BUILD_TESTS)
    return()
  endif()
  if(NOT TARGET ${layer}_test)
    headwise_test_program(${layer} ${layer})
  endif()
  headwise_test_sources(${layer} ${ARGN})
endfunction()

function(headwise_threaded_tests layer filter)
  if(NOT TARGET ${layer}_test)
    return()
  endif()
  headwise_add_test(${layer}_threaded threaded
                    ${layer}_test --gtest_filter=${filter})
  add_dependencies(threaded_tests ${layer}_test)
  # Sources of tests of other names are not compiled for the thread sanitizer.
  if(HEADWISE_SANITIZE STREQUAL "thread")
    string(REPLACE "*" "" word "${filter}")
    get_target_property(sources ${layer}_test SOURCES)
    foreach(source ${sources})
      file(STRINGS "${source}" named REGEX "^[A-Z_]*TEST.*${word}" LIMIT_COUNT 1)
      if(source MATCHES "_test.cc$" AND NOT named)
        list(REMOVE_ITEM sources "${source}")
      endif()
    endforeach()
    set_target_properties(${layer}_test PROPERTIES SOURCES "${sources}")
  endif()
endfunction()

# Micro-benchmarks of a layer are one program, NAME_bench; not built by default.
function(headwise_bench layer)
  if(NOT HEADWISE_BUILD_BENCHMARKS OR NOT benchmark_FOUND)
    return()
  endif()
  if(NOT TARGET ${layer}_bench)
    add_executable(${layer}_bench EXCLUDE_FROM_ALL)
    target_link_libraries(${layer}_bench PRIVATE
      headwise_${layer} headwise_flags fmt::fmt benchmark::benchmark_main)
    set_target_properties(${layer}_bench PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
  endif()
  target_sources(${layer}_bench PRIVATE ${ARGN})
endfunction()
