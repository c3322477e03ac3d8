// Products by cuBLASLt, their descriptions kept. Door: blas.h.
#include "headwise/backend/cuda/blas.h"

#include <string>
#include <type_traits>

#include "headwise/backend/cuda/blas_choice.h"
#include "headwise/error.h"

namespace headwise {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;
// Of sizes that never come back (rows of a ragged batch) there is no end.
constexpr size_t kMostPlans = 4096;
constexpr uintptr_t kMostAlignment = 256;

void CheckBlas(cublasStatus_t status, const char* where) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const ErrorCode code = status == CUBLAS_STATUS_ALLOC_FAILED
                             ? ErrorCode::kOutOfMemory
                             : ErrorCode::kInternal;
  throw Error(code, {where, "a call of cuBLASLt to succeed",
                     cublasLtGetStatusString(status), ""});
}

// The largest power of two that divides an address, as far as it matters.
uint32_t AlignmentOf(const void* data) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(data) | kMostAlignment;
  return static_cast<uint32_t>(at & (~at + 1));
}

template <auto kDestroy>
struct Destroy {
  template <typename T>
  void operator()(T* handle) const {
    kDestroy(handle);
  }
};
template <typename Handle, auto kDestroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<kDestroy>>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Preference =
    Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

// Column by column, as the library counts.
Layout MakeLayout(cudaDataType_t type, int64_t rows, int64_t columns,
                  int64_t leading) {
  cublasLtMatrixLayout_t layout = nullptr;
  CheckBlas(
      cublasLtMatrixLayoutCreate(&layout, type, static_cast<uint64_t>(rows),
                                 static_cast<uint64_t>(columns), leading),
      "cublasLtMatrixLayoutCreate");
  return Layout(layout);
}

template <typename Value>
void Set(const Description& to, cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
  CheckBlas(cublasLtMatmulDescSetAttribute(to.get(), attribute, &value,
                                           sizeof(value)),
            "cublasLtMatmulDescSetAttribute");
}

template <typename Value>
void Set(const Preference& to, cublasLtMatmulPreferenceAttributes_t attribute,
         const Value& value) {
  CheckBlas(cublasLtMatmulPreferenceSetAttribute(to.get(), attribute, &value,
                                                 sizeof(value)),
            "cublasLtMatmulPreferenceSetAttribute");
}

cublasLtEpilogue_t EpilogueOf(const BlasProduct& p) {
  const bool bias = p.bias != nullptr;
  switch (p.epilogue) {
    case BlasEpilogue::kNone:
      break;
    case BlasEpilogue::kGelu:
      if (p.inner == nullptr) {
        return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
      }
      return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                  : CUBLASLT_EPILOGUE_GELU_AUX;
    case BlasEpilogue::kGeluBackward:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

Description MakeDescription(const BlasProduct& p) {
  cublasLtMatmulDesc_t made = nullptr;
  CheckBlas(cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            "cublasLtMatmulDescCreate");
  Description description(made);
  Set(description, CUBLASLT_MATMUL_DESC_TRANSA,
      p.b_along_k ? CUBLAS_OP_T : CUBLAS_OP_N);
  Set(description, CUBLASLT_MATMUL_DESC_TRANSB,
      p.a_along_k ? CUBLAS_OP_N : CUBLAS_OP_T);
  Set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, EpilogueOf(p));
  if (p.inner != nullptr) {
    Set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.inner);
    Set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.inner_ld);
  }
  if (p.bias != nullptr) {
    Set(description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, p.c_type);
    Set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  }
  return description;
}

Preference MakePreference(const BlasProduct& p) {
  cublasLtMatmulPreference_t made = nullptr;
  CheckBlas(cublasLtMatmulPreferenceCreate(&made),
            "cublasLtMatmulPreferenceCreate");
  Preference preference(made);
  const size_t bytes = kWorkspaceBytes;
  Set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes);
  // Sums that are cut along k are put together in f32.
  const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  Set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, AlignmentOf(p.b));
  Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, AlignmentOf(p.a));
  Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, AlignmentOf(p.c));
  Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, AlignmentOf(p.c));
  return preference;
}

int NumberOf(const cublasLtMatmulAlgo_t& algorithm) {
  int number = 0;
  size_t written = 0;
  CheckBlas(
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_ID,
                                           &number, sizeof(number), &written),
      "cublasLtMatmulAlgoConfigGetAttribute");
  return number;
}

template <typename Value>
bool Set(cublasLtMatmulAlgo_t& to,
         cublasLtMatmulAlgoConfigAttributes_t attribute, Value value) {
  return cublasLtMatmulAlgoConfigSetAttribute(
             &to, attribute, &value, sizeof(value)) == CUBLAS_STATUS_SUCCESS;
}

bool Apply(const BlasChoice& choice, cublasLtMatmulAlgo_t& to) {
  return (!choice.tile ||
          Set(to, CUBLASLT_ALGO_CONFIG_TILE_ID, uint32_t{*choice.tile})) &&
         (!choice.option ||
          Set(to, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, *choice.option)) &&
         Set(to, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID,
             static_cast<uint16_t>(choice.cluster));
}

}  // namespace

// The library counts along columns, so that our C is its Cᵀ = Bᵀ · Aᵀ: its
// first operand is our B.
struct CudaBlas::Plan {
  Description description;
  Layout b, a, c;
  cublasLtMatmulAlgo_t algorithm = {};
  bool exists = false;  // an algorithm
};

CudaBlas::CudaBlas(cudaStream_t stream, int processors)
    : stream_(stream),
      processors_(processors),
      workspace_(kWorkspaceBytes, stream) {
  CheckBlas(cublasLtCreate(&handle_), "cublasLtCreate");
}

CudaBlas::~CudaBlas() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

CudaBlas::Key CudaBlas::KeyOf(const BlasProduct& p) {
  const int64_t options = (p.a_along_k ? 1 : 0) + (p.b_along_k ? 2 : 0) +
                          (p.bias != nullptr ? 4 : 0) +
                          (static_cast<int64_t>(p.epilogue) << 3) +
                          (p.inner != nullptr ? 32 : 0) +
                          (int64_t{p.type} << 8) + (int64_t{p.c_type} << 16);
  const int64_t alignments = AlignmentOf(p.a) +
                             (int64_t{AlignmentOf(p.b)} << 16) +
                             (int64_t{AlignmentOf(p.c)} << 32);
  return {p.m, p.n, p.k, p.lda, p.ldb, p.ldc, options, alignments, p.inner_ld};
}

CudaBlas::Plan& CudaBlas::PlanOf(const BlasProduct& p) {
  const Key key = KeyOf(p);
  const auto found = plans_.find(key);
  if (found != plans_.end()) return *found->second;
  if (plans_.size() >= kMostPlans) plans_.clear();
  auto plan = std::make_unique<Plan>();
  plan->description = MakeDescription(p);
  plan->b = p.b_along_k ? MakeLayout(p.type, p.k, p.n, p.ldb)
                        : MakeLayout(p.type, p.n, p.k, p.ldb);
  plan->a = p.a_along_k ? MakeLayout(p.type, p.k, p.m, p.lda)
                        : MakeLayout(p.type, p.m, p.k, p.lda);
  plan->c = MakeLayout(p.c_type, p.n, p.m, p.ldc);
  const Preference preference = MakePreference(p);
  cublasLtMatmulHeuristicResult_t result = {};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, plan->description.get(), plan->b.get(), plan->a.get(),
      plan->c.get(), plan->c.get(), preference.get(), 1, &result, &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) {
    CheckBlas(status, "cublasLtMatmulAlgoGetHeuristic");
  }
  plan->exists = status == CUBLAS_STATUS_SUCCESS && count > 0 &&
                 result.state == CUBLAS_STATUS_SUCCESS;
  plan->algorithm = result.algo;
  if (plan->exists) Improve(p, *plan);
  return *plans_.emplace(key, std::move(plan)).first->second;
}

// Another version of the library may not know the better one.
void CudaBlas::Improve(const BlasProduct& p, Plan& plan) const {
  const std::optional<BlasChoice> better =
      BetterChoice(p, NumberOf(plan.algorithm), processors_);
  cublasLtMatmulAlgo_t changed = plan.algorithm;
  if (!better || !Apply(*better, changed)) return;
  cublasLtMatmulHeuristicResult_t result = {};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(
      handle_, plan.description.get(), plan.b.get(), plan.a.get(), plan.c.get(),
      plan.c.get(), &changed, &result);
  if (status == CUBLAS_STATUS_SUCCESS &&
      result.state == CUBLAS_STATUS_SUCCESS &&
      result.workspaceSize <= kWorkspaceBytes) {
    plan.algorithm = changed;
  }
}

bool CudaBlas::Multiply(const BlasProduct& p) {
  Plan& plan = PlanOf(p);
  if (!plan.exists) return false;
  if (p.bias != nullptr) {
    Set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  }
  if (p.inner != nullptr) {
    Set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.inner);
  }
  const float one = 1, keep = p.add ? 1.0f : 0.0f;
  const cublasStatus_t status = cublasLtMatmul(
      handle_, plan.description.get(), &one, p.b, plan.b.get(), p.a,
      plan.a.get(), &keep, p.c, plan.c.get(), p.c, plan.c.get(),
      &plan.algorithm, workspace_.Raw<void>(), kWorkspaceBytes, stream_);
  // An algorithm that is offered may yet not have the epilogue.
  if (p.epilogue != BlasEpilogue::kNone &&
      (status == CUBLAS_STATUS_NOT_SUPPORTED ||
       status == CUBLAS_STATUS_INVALID_VALUE)) {
    plan.exists = false;
    return false;
  }
  CheckBlas(status, "cublasLtMatmul");
  return true;
}

}  // namespace headwise
