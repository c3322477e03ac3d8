# Every switch of the build, and the language settings all targets share.
# In another project (add_subdirectory) the libraries are all there is, unless
# that project asks for more.
option(HEADWISE_OPERATOR_ONLY
  "The operator and MultiHeadAttention alone, which need fmt and Highway" OFF)
set(whole ${PROJECT_IS_TOP_LEVEL})
if(HEADWISE_OPERATOR_ONLY)
  set(whole OFF)
endif()
option(HEADWISE_BUILD_PROGRAM "Build the program" ${whole})
option(HEADWISE_BUILD_TESTS "Build the tests" ${whole})
option(HEADWISE_BUILD_BENCHMARKS "Build the micro-benchmarks" ${whole})
option(HEADWISE_BUILD_EXAMPLES "Build the examples" ${whole})
option(HEADWISE_WEB_PAGE "Build the report's page with Node; OFF: plain tables"
       ${whole})
option(HEADWISE_INSTALL "Make what cmake --install and cpack read"
       ${PROJECT_IS_TOP_LEVEL})
option(HEADWISE_PYTHON "Build the Python package (needs pybind11)" OFF)
option(HEADWISE_BUILD_FUZZERS "Build the fuzzers (clang only)" OFF)
option(HEADWISE_STATIC "Build static libraries instead of shared ones" OFF)
option(HEADWISE_UNITY
  "Compile many sources of a layer at a time: half the work or less" ON)
set(HEADWISE_UNITY_SIZE 24 CACHE STRING "How many")
option(HEADWISE_ONE_TARGET
  "Kernels for this machine's instructions, and not for each that there are" OFF)
option(HEADWISE_WERROR "Treat warnings as errors" OFF)
option(HEADWISE_CUDA "Build the CUDA operators" OFF)
option(HEADWISE_CUDA_HOPPER "Machine code of the portable kernels for Hopper \
too, and not for Ampere alone" ON)
set(HEADWISE_MPI AUTO CACHE STRING
    "Ranks under mpirun by OpenMPI, loaded when asked for: AUTO, ON or OFF")
set(HEADWISE_SANITIZE "" CACHE STRING
    "Sanitizers: empty, address,undefined or thread")
set(HEADWISE_TESTS_OF "" CACHE STRING
    "Folder of a build whose tests, by its target test_objects, are linked here \
instead of compiled")

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

find_program(HEADWISE_CCACHE ccache)
if(HEADWISE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${HEADWISE_CCACHE}")
endif()

add_library(headwise_flags INTERFACE)
# The fastest linker that is there.
find_program(HEADWISE_MOLD mold)
find_program(HEADWISE_LLD ld.lld)
if(HEADWISE_MOLD)
  target_link_options(headwise_flags INTERFACE -fuse-ld=mold)
elseif(HEADWISE_LLD)
  target_link_options(headwise_flags INTERFACE -fuse-ld=lld)
endif()
# Contraction is fixed so that one source gives one result on every compiler.
target_compile_options(headwise_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wno-unused-parameter;-ffp-contract=on>"
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${HEADWISE_WERROR}>>:-Werror>)
if(HEADWISE_SANITIZE)
  # For base/sanitized.cc: g++ and clang tell in different ways.
  target_compile_definitions(headwise_flags INTERFACE HEADWISE_SANITIZED)
  target_compile_options(headwise_flags INTERFACE
    -fsanitize=${HEADWISE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  if(HEADWISE_SANITIZE MATCHES "undefined" AND
     CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # A third of a kernel's compilation, and nothing that reading there by a
    # pointer gone astray would not tell.
    target_compile_options(headwise_flags INTERFACE
      -fno-sanitize=pointer-overflow)
  endif()
  target_link_options(headwise_flags INTERFACE
    -fsanitize=${HEADWISE_SANITIZE})
endif()
# Elsewhere there is but one.
if(HEADWISE_ONE_TARGET AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_definitions(headwise_flags INTERFACE HWY_COMPILE_ONLY_STATIC)
  target_compile_options(headwise_flags INTERFACE -march=native)
endif()
