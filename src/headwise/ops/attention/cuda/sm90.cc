// cuda.sm90: the Hopper kernels, forward and, for bf16 without an entropy
// gradient, backward.
#include <cudaTypedefs.h>

#include <algorithm>
#include <type_traits>

#include "headwise/error.h"
#include "headwise/ops/attention/cuda/arguments.h"
#include "headwise/ops/attention/cuda/forward.h"
#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/second_pass.h"
#include "headwise/ops/attention/geometry.h"
#include "headwise/ops/attention/implementation.h"

namespace headwise {
namespace {

using namespace attention_cuda;  // NOLINT: the folder's own namespace

// Keys and values are padded alike: what lies past the end of a row the copy
// engine fills with zeros.
int Columns(const AttentionProblem& problem) {
  return PaddedDim(
      static_cast<int>(std::max(problem.head_dim, ValueDim(problem))));
}

std::string WhyNot(const AttentionProblem& problem) {
  std::string reason = WhyNotAny(problem);
  if (!reason.empty()) return reason;
  if (problem.bias != AttentionBias::kNone) return "has no biases";
  if (problem.soft_cap != 0) return "has no soft cap";
  if (problem.head_dim % 8 != 0 || ValueDim(problem) % 8 != 0) {
    return "needs a head_dim and value_dim divisible by 8";
  }
  if (Columns(problem) > 128) return "takes heads up to 128";
  return ChipOf(problem.device)->major == 9 ? ""
                                            : "needs a Hopper chip (sm_90)";
}

// The driver's encoder, found at run time so that nothing links to the driver.
PFN_cuTensorMapEncodeTiled_v12000 Encoder() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  CheckCuda(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
                                             12000, cudaEnableDefault, &result),
            "cuTensorMapEncodeTiled");
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found);
}

// A view [B, P, H, D] to be read in boxes of `rows` × 64 columns.
CUtensorMap MapOf(const ConstTensorView& view, DType type, int rows) {
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
  CUtensorMap map;
  const CUresult result = encode(
      &map,
      type == DType::kBF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                           : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      4, const_cast<void*>(view.data), sizes, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw Error(ErrorCode::kUnsupported,
                {"attention cuda.sm90", "a view that the copy engine can read",
                 ToString(view), "attention:cuda.sm80 reads others"});
  }
  return map;
}

template <class T, int kDim>
void Run(const ForwardCall& call, const TensorMaps& maps, int processors,
         cudaStream_t stream) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    if (call.gathered == Statistics::kFull) {
      return LaunchFullSm90<kDim>(call.observation.observe, maps, processors,
                                  stream);
    }
  }
  LaunchForwardSm90<T, kDim>(call.params, maps,
                             call.gathered != Statistics::kNone, processors,
                             stream);
}

void Forward(Context& context, const AttentionProblem& problem,
             const AttentionArgs& args) {
  const int columns = Columns(problem);
  const int block = 64 * ComputeGroups(columns);
  const int processors = ChipOf(problem.device)->processors;
  const auto launch = [&](const ForwardCall& call) {
    const int keys = ForwardKeyTile(call.gathered == Statistics::kFull);
    const TensorMaps maps = {MapOf(args.q, problem.type, block),
                             MapOf(args.k, problem.type, keys),
                             MapOf(args.v, problem.type, keys)};
    const bool narrow = columns == 64;
    if (problem.type == DType::kBF16) {
      const auto run =
          narrow ? Run<__nv_bfloat16, 64> : Run<__nv_bfloat16, 128>;
      run(call, maps, processors, StreamOf(context));
    } else {
      const auto run = narrow ? Run<__half, 64> : Run<__half, 128>;
      run(call, maps, processors, StreamOf(context));
    }
  };
  // f16 is observed by the portable kernel.
  const bool gathers_full = problem.type == DType::kBF16;
  RunForward(context, problem, args, block, gathers_full, launch);
}

void Backward(Context& context, const AttentionProblem& problem,
              const AttentionArgs& args, const AttentionGrads& grads) {
  if (problem.type != DType::kBF16 || grads.dentropy) {
    return kAttentionCudaSm80.backward(context, problem, args, grads);
  }
  const cudaStream_t stream = StreamOf(context);
  const int columns = Columns(problem);
  const int queries = 64 * GradientGroups(columns, false);
  const int keys = 64 * GradientGroups(columns, true);
  const BackwardCall call =
      MakeBackward(context, problem, args, grads, queries, keys);
  const auto map = [&](const ConstTensorView& view, int rows) {
    return MapOf(view, problem.type, rows);
  };
  constexpr int kColumns = kSm90GradientColumns;
  const GradientMaps of_queries = {
      map(args.q, queries), map(call.d_o_view, queries), map(args.k, kColumns),
      map(args.v, kColumns)};
  const GradientMaps of_keys = {map(args.k, keys), map(args.v, keys),
                                map(args.q, kColumns),
                                map(call.d_o_view, kColumns)};
  const int processors = ChipOf(problem.device)->processors;
  LaunchPrepare(call.params, stream);
  if (columns == 64) {
    LaunchBackwardSm90<__nv_bfloat16, 64>(call.params, of_queries, of_keys,
                                          processors, stream);
  } else {
    LaunchBackwardSm90<__nv_bfloat16, 128>(call.params, of_queries, of_keys,
                                           processors, stream);
  }
}

}  // namespace

const AttentionImplementation kAttentionCudaSm90 = {.name = "cuda.sm90",
                                                    .why_not = WhyNot,
                                                    .forward = Forward,
                                                    .backward = Backward,
                                                    .rows = DenseRows,
                                                    .top_k = LargestKeys,
                                                    .pairs = PairMass,
                                                    .received = ReceivedMass,
                                                    .window = WindowPicture,
                                                    .gram = Gram};

}  // namespace headwise
