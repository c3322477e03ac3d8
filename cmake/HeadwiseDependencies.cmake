# What we build on; the Debian package of each is named in
# tools/packages.sh.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(hwy REQUIRED)
if(HEADWISE_BUILD_PROGRAM)
  find_path(CLI11_INCLUDE CLI/CLI.hpp REQUIRED)
endif()
if(NOT HEADWISE_OPERATOR_ONLY)
  find_path(NLOHMANN_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
  include(HeadwiseFind)
  headwise_find_all()
  if(headwise_missing)
    message(FATAL_ERROR "headwise: not found: ${headwise_missing}. The Debian "
      "packages are named in tools/packages.sh; the operator alone "
      "(HEADWISE_OPERATOR_ONLY) needs none of them.")
  endif()
endif()
if(HEADWISE_BUILD_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
endif()
if(HEADWISE_BUILD_BENCHMARKS)
  find_package(benchmark QUIET)
endif()

# OpenMPI's header alone: its library is loaded at run time.
set(HEADWISE_MPI_INCLUDE "")
if(HEADWISE_MPI AND NOT HEADWISE_OPERATOR_ONLY)
  find_path(HEADWISE_OPENMPI_INCLUDE mpi.h NO_DEFAULT_PATH PATHS
    "$ENV{MPI_HOME}/include"
    "/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/include"
    /usr/lib64/openmpi/include /usr/include/openmpi /usr/local/include)
  if(HEADWISE_OPENMPI_INCLUDE)
    file(STRINGS "${HEADWISE_OPENMPI_INCLUDE}/mpi.h" lines
         REGEX "define OMPI_MAJOR_VERSION" LIMIT_COUNT 1)
    if(lines)
      set(HEADWISE_MPI_INCLUDE "${HEADWISE_OPENMPI_INCLUDE}")
    endif()
  endif()
  if(NOT HEADWISE_MPI_INCLUDE AND NOT HEADWISE_MPI STREQUAL "AUTO")
    message(FATAL_ERROR "headwise: HEADWISE_MPI is ${HEADWISE_MPI} and "
      "OpenMPI's mpi.h was not found (Debian: libopenmpi-dev)")
  endif()
endif()

if(HEADWISE_CUDA)
  enable_language(CUDA)
  # CMake 3.25 does not know CUDA 13's flag for the language.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  find_package(CUDAToolkit REQUIRED)
  # Sums between GPUs: the header alone, as of OpenMPI.
  find_path(HEADWISE_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(HEADWISE_NCCL_FILE nccl HINTS ${CUDAToolkit_LIBRARY_DIR}
    ${CUDAToolkit_LIBRARY_ROOT}/lib)
  # For the shared library.
  string(APPEND CMAKE_CUDA_FLAGS " -Xcompiler=-fPIC")
endif()
