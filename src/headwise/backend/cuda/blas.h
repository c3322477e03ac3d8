// Matrix products by cuBLASLt on one queue: a handle, a workspace of fixed size
// and the algorithm of every product seen so far. Only files under a cuda/
// folder include this.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "headwise/backend/cuda/backend.h"

namespace headwise {

enum class BlasEpilogue : uint8_t {
  kNone,
  kGelu,         // of the sum with the bias, which `inner` gets
  kGeluBackward  // times its slope at `inner`
};

// C [m, n] = A [m, k] · B [k, n] (+ bias) (+ C), C's rows `ldc` apart.
// f32 multiplies as f32 (no TF32); halves add up in f32.
struct BlasProduct {
  int64_t m = 0, n = 0, k = 0;
  cudaDataType_t type = CUDA_R_32F;    // of A and B
  cudaDataType_t c_type = CUDA_R_32F;  // of C and the bias
  // Whether numbers along k lie together, in lines `lda` apart; else those
  // along m (n) do.
  const void* a = nullptr;
  bool a_along_k = true;
  int64_t lda = 0;
  const void* b = nullptr;
  bool b_along_k = true;
  int64_t ldb = 0;
  void* c = nullptr;
  int64_t ldc = 0;
  const void* bias = nullptr;  // [n], aligned to 16 bytes; or null
  bool add = false;            // to what C holds
  // Of halves only. inner: [m, n] of C's type, aligned to 16 bytes, its rows a
  // multiple of 8 apart; kGelu: may be null.
  BlasEpilogue epilogue = BlasEpilogue::kNone;
  void* inner = nullptr;
  int64_t inner_ld = 0;
};

class CudaBlas {
 public:
  // processors: of the GPU.
  CudaBlas(cudaStream_t stream, int processors);
  ~CudaBlas();
  CudaBlas(const CudaBlas&) = delete;
  CudaBlas& operator=(const CudaBlas&) = delete;

  // False where the library has no algorithm for it: nothing was done. The
  // algorithm is one that the sizes tell (blas_choice.h), so that results
  // repeat.
  bool Multiply(const BlasProduct& product);

 private:
  struct Plan;
  // What the choice of an algorithm may look at.
  using Key = std::array<int64_t, 9>;

  static Key KeyOf(const BlasProduct& product);
  Plan& PlanOf(const BlasProduct& product);
  void Improve(const BlasProduct& product, Plan& plan) const;

  cudaStream_t stream_ = nullptr;
  int processors_ = 0;
  cublasLtHandle_t handle_ = nullptr;
  DeviceBuffer workspace_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace headwise
