// cuBLASLt's functions as far as blas.cc calls them, each passed on to the
// library, which is loaded by the first call: it is half a gigabyte, and a
// program that multiplies nothing on a GPU starts without it.
#include <cublasLt.h>
#include <dlfcn.h>

#include <string>

#include "headwise/error.h"

#ifndef HEADWISE_CUBLASLT
#define HEADWISE_CUBLASLT "libcublasLt.so"
#endif

namespace headwise {
namespace {

// Where the build found it (CMakeLists.txt), else where the system looks.
void* OpenLibrary() {
  constexpr int kHow = RTLD_NOW | RTLD_LOCAL;
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  for (const std::string& place : {std::string(HEADWISE_CUBLASLT), name}) {
    if (void* library = dlopen(place.c_str(), kHow)) return library;
  }
  const char* why = dlerror();
  throw Error(ErrorCode::kUnsupported,
              {"matmul", name + " of CUDA", why != nullptr ? why : "none",
               "install CUDA's libraries, or take the device cpu"});
}

template <typename Function>
Function* Find(const char* name) {
  static void* const kLibrary = OpenLibrary();
  void* found = dlsym(kLibrary, name);
  if (found == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                {"matmul", std::string("cuBLASLt with ") + name, "none",
                 "install the version that the program was built with"});
  }
  return reinterpret_cast<Function*>(found);
}

}  // namespace
}  // namespace headwise

#define HEADWISE_PASS_ON(Result, name, parameters, arguments)        \
  Result name parameters {                                           \
    static const auto kReal = headwise::Find<decltype(name)>(#name); \
    return kReal arguments;                                          \
  }

extern "C" {
HEADWISE_PASS_ON(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t * handle),
                 (handle))
HEADWISE_PASS_ON(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t handle),
                 (handle))
HEADWISE_PASS_ON(const char*, cublasLtGetStatusString, (cublasStatus_t status),
                 (status))
HEADWISE_PASS_ON(cublasStatus_t, cublasLtMatmul,
                 (cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                  const void* alpha, const void* a, cublasLtMatrixLayout_t a_is,
                  const void* b, cublasLtMatrixLayout_t b_is, const void* beta,
                  const void* c, cublasLtMatrixLayout_t c_is, void* d,
                  cublasLtMatrixLayout_t d_is,
                  const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                  size_t bytes, cudaStream_t stream),
                 (handle, description, alpha, a, a_is, b, b_is, beta, c, c_is,
                  d, d_is, algorithm, workspace, bytes, stream))
HEADWISE_PASS_ON(cublasStatus_t, cublasLtMatmulAlgoCheck,
                 (cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                  cublasLtMatrixLayout_t a_is, cublasLtMatrixLayout_t b_is,
                  cublasLtMatrixLayout_t c_is, cublasLtMatrixLayout_t d_is,
                  const cublasLtMatmulAlgo_t* algorithm,
                  cublasLtMatmulHeuristicResult_t* result),
                 (handle, description, a_is, b_is, c_is, d_is, algorithm,
                  result))
HEADWISE_PASS_ON(cublasStatus_t, cublasLtMatmulAlgoConfigGetAttribute,
                 (const cublasLtMatmulAlgo_t* algorithm,
                  cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
                  size_t bytes, size_t* written),
                 (algorithm, attribute, value, bytes, written))
HEADWISE_PASS_ON(cublasStatus_t, cublasLtMatmulAlgoConfigSetAttribute,
                 (cublasLtMatmulAlgo_t * algorithm,
                  cublasLtMatmulAlgoConfigAttributes_t attribute,
                  const void* value, size_t bytes),
                 (algorithm, attribute, value, bytes))
HEADWISE_PASS_ON(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,
                 (cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                  cublasLtMatrixLayout_t a_is, cublasLtMatrixLayout_t b_is,
                  cublasLtMatrixLayout_t c_is, cublasLtMatrixLayout_t d_is,
                  cublasLtMatmulPreference_t preference, int wanted,
                  cublasLtMatmulHeuristicResult_t results[], int* count),
                 (handle, description, a_is, b_is, c_is, d_is, preference,
                  wanted, results, count))
HEADWISE_PASS_ON(cublasStatus_t, cublasLtMatmulDescCreate,
                 (cublasLtMatmulDesc_t * made, cublasComputeType_t compute,
                  cudaDataType_t scale),
                 (made, compute, scale))
HEADWISE_PASS_ON(cublasStatus_t, cublasLtMatmulDescDestroy,
                 (cublasLtMatmulDesc_t description), (description))
HEADWISE_PASS_ON(cublasStatus_t, cublasLtMatmulDescSetAttribute,
                 (cublasLtMatmulDesc_t description,
                  cublasLtMatmulDescAttributes_t attribute, const void* value,
                  size_t bytes),
                 (description, attribute, value, bytes))
HEADWISE_PASS_ON(cublasStatus_t, cublasLtMatmulPreferenceCreate,
                 (cublasLtMatmulPreference_t * made), (made))
HEADWISE_PASS_ON(cublasStatus_t, cublasLtMatmulPreferenceDestroy,
                 (cublasLtMatmulPreference_t preference), (preference))
HEADWISE_PASS_ON(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,
                 (cublasLtMatmulPreference_t preference,
                  cublasLtMatmulPreferenceAttributes_t attribute,
                  const void* value, size_t bytes),
                 (preference, attribute, value, bytes))
HEADWISE_PASS_ON(cublasStatus_t, cublasLtMatrixLayoutCreate,
                 (cublasLtMatrixLayout_t * made, cudaDataType type,
                  uint64_t rows, uint64_t columns, int64_t leading),
                 (made, type, rows, columns, leading))
HEADWISE_PASS_ON(cublasStatus_t, cublasLtMatrixLayoutDestroy,
                 (cublasLtMatrixLayout_t layout), (layout))
HEADWISE_PASS_ON(cublasStatus_t, cublasLtMatrixLayoutSetAttribute,
                 (cublasLtMatrixLayout_t layout,
                  cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                  size_t bytes),
                 (layout, attribute, value, bytes))
}
