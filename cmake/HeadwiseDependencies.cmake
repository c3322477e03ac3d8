# What we build on; the Debian package of each is named in
# tools/packages.sh.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(hwy REQUIRED)
find_path(NLOHMANN_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
find_path(CLI11_INCLUDE CLI/CLI.hpp REQUIRED)
# The tokenizers' rules.
find_path(PCRE2_INCLUDE pcre2.h REQUIRED)
find_library(PCRE2_LIBRARY pcre2-8 REQUIRED)
find_path(UTF8PROC_INCLUDE utf8proc.h REQUIRED)
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
find_path(SENTENCEPIECE_INCLUDE sentencepiece_processor.h REQUIRED)
find_library(SENTENCEPIECE_LIBRARY sentencepiece REQUIRED)
# Hashes of models and windows; compressed text.
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)
find_library(XXHASH_LIBRARY xxhash REQUIRED)
find_path(ZLIB_INCLUDE zlib.h REQUIRED)
find_library(ZLIB_LIBRARY z REQUIRED)
find_path(LZMA_INCLUDE lzma.h REQUIRED)
find_library(LZMA_LIBRARY lzma REQUIRED)
find_path(ZSTD_INCLUDE zstd.h REQUIRED)
find_library(ZSTD_LIBRARY zstd REQUIRED)
# Optional: models as ONNX files, which are protobuf's messages.
find_path(ONNX_INCLUDE onnx/onnx_pb.h)
find_path(PROTOBUF_INCLUDE google/protobuf/message.h)
find_library(ONNX_PROTO_LIBRARY onnx_proto)
find_library(PROTOBUF_LIBRARY protobuf)
if(ONNX_INCLUDE AND PROTOBUF_INCLUDE AND ONNX_PROTO_LIBRARY AND
   PROTOBUF_LIBRARY)
  set(ONNX_LIBRARIES "${ONNX_PROTO_LIBRARY}" "${PROTOBUF_LIBRARY}")
endif()

if(HEADWISE_BUILD_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
endif()
if(HEADWISE_BUILD_BENCHMARKS)
  find_package(benchmark QUIET)
endif()

if(HEADWISE_CUDA)
  enable_language(CUDA)
  # CMake 3.25 does not know CUDA 13's flag for the language.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  find_package(CUDAToolkit REQUIRED)
  # For the shared library.
  string(APPEND CMAKE_CUDA_FLAGS " -Xcompiler=-fPIC")
endif()
