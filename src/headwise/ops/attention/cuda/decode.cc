// Plans and launches a decoding step. Door: decode.h.
#include "headwise/ops/attention/cuda/decode.h"

#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/geometry.h"

namespace headwise::attention_cuda {

bool IsDecoding(const AttentionProblem& problem) {
  return Decodes(static_cast<int>(problem.query_len),
                 static_cast<int>(problem.head_dim),
                 static_cast<int>(ValueDim(problem)));
}

void RunDecode(Context& context, const AttentionProblem& problem,
               const AttentionArgs& args, const ForwardCall& call) {
  const cudaStream_t stream = StreamOf(context);
  DecodeParams p;
  p.forward = call.params;
  const ForwardParams& f = p.forward;
  p.kv_heads = static_cast<int>(problem.kv_heads);
  p.is_half = problem.type == DType::kF16;
  p.row_blocks = CeilDiv(f.query_len * f.queries_per_kv, kDecodeRows);
  const DeviceBuffer is_active = ActiveFlags(problem, args, stream);
  p.is_active = is_active.Raw<uint8_t>();
  const int units = f.order.sequences * p.kv_heads * p.row_blocks;
  const int tiles = MostTiles(f.band, f.query_len, f.key_len, kDecodeKeys);
  p.plan = PlanSplits(units, tiles,
                      kDecodeBlocks * ChipOf(problem.device)->processors);
  if (p.plan.splits > 1) {
    const size_t rows =
        static_cast<size_t>(units) * p.plan.splits * kDecodeRows;
    constexpr size_t kRowBytes =
        sizeof(RowPartial) + kDecodeColumns * sizeof(float);
    p.outputs = static_cast<float*>(CudaOf(context).Scratch(rows * kRowBytes));
    p.parts = reinterpret_cast<RowPartial*>(p.outputs + rows * kDecodeColumns);
    p.done = CudaOf(context).Counters(units);
  }
  LaunchDecode(p, stream);
}

}  // namespace headwise::attention_cuda
