// Door: copy_engine.h.
#include "headwise/ops/attention/cuda/copy_engine.h"

#include <cudaTypedefs.h>

#include <algorithm>

#include "headwise/backend/cuda/backend.h"
#include "headwise/error.h"

namespace headwise::attention_cuda {
namespace {

// Of the engine, in bytes.
constexpr int64_t kStrideEnd = int64_t{1} << 40;

// The driver's encoder, found at run time so that nothing links to the driver.
PFN_cuTensorMapEncodeTiled_v12000 Encoder() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  CheckCuda(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
                                             12000, cudaEnableDefault, &result),
            "cuTensorMapEncodeTiled");
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found);
}

// Whether the driver takes the view.
bool Encode(const ConstTensorView& view, DType type, int rows,
            CUtensorMap& map) {
  static const PFN_cuTensorMapEncodeTiled_v12000 encode = Encoder();
  const auto size = [&](int axis) {
    return static_cast<cuuint64_t>(std::max<int64_t>(1, view.shape[axis]));
  };
  // Of an axis of length 1 the stride is never used, but must be legal.
  const auto stride = [&](int axis) {
    return static_cast<cuuint64_t>(
        2 * (view.shape[axis] > 1 ? view.stride[axis] : view.shape[3]));
  };
  const cuuint64_t sizes[4] = {size(3), size(2), size(1), size(0)};
  const cuuint64_t strides[3] = {stride(2), stride(1), stride(0)};
  const cuuint32_t box[4] = {64, 1, static_cast<cuuint32_t>(rows), 1};
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  const CUresult result = encode(
      &map,
      type == DType::kBF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                           : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      4, const_cast<void*>(view.data), sizes, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS;
}

Reason WhyNotView(const char* name, const ConstTensorView& view) {
  if (!view) return "";
  bool is_plain = true, is_read = true;
  for (int axis = 0; axis < 3; ++axis) {
    if (view.shape[axis] <= 1) continue;
    const int64_t bytes = 2 * view.stride[axis];
    is_plain &= bytes > 0;
    is_read &= bytes >= 0 && bytes < kStrideEnd;
  }
  // What is said of strides of 0 differs: the driver knows.
  CUtensorMap map;
  if (is_read && (is_plain || Encode(view, view.type, 64, map))) return "";
  return std::string("has a copy engine that cannot read ") + name +
         " by its strides";
}

}  // namespace

Reason WhyNotCopied(const AttentionCall& call) {
  const auto of = [](const AttentionArgs& args, const ConstTensorView& dout) {
    Reason reason = WhyNotView("q", args.q);
    if (reason.empty()) reason = WhyNotView("k", args.k);
    if (reason.empty()) reason = WhyNotView("v", args.v);
    return reason.empty() ? WhyNotView("dout", dout) : reason;
  };
  if (const auto* forward = std::get_if<AttentionForwardCall>(&call)) {
    return of(forward->args, {});
  }
  if (const auto* backward = std::get_if<AttentionBackwardCall>(&call)) {
    // Under gates a copy of dout is read.
    const bool is_copied{backward->args.gates};
    return of(backward->args,
              is_copied ? ConstTensorView{} : backward->grads.dout);
  }
  return "";
}

CUtensorMap MapOf(const ConstTensorView& view, DType type, int rows) {
  CUtensorMap map = {};
  if (!view) return map;  // of nothing: never read through
  if (Encode(view, type, rows, map)) return map;
  throw Error(ErrorCode::kInternal,
              {"attention cuda.sm90", "a view that the copy engine can read",
               ToString(view), ""});
}

}  // namespace headwise::attention_cuda
