// Fills the kernels' parameters. Door: arguments.h.
#include "headwise/ops/attention/cuda/arguments.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "headwise/ops/attention/cuda/views.h"
#include "headwise/ops/attention/geometry.h"

namespace headwise::attention_cuda {
namespace {

int Clamped(int64_t reach) {
  return static_cast<int>(std::clamp<int64_t>(reach, -kFar, kFar));
}

void FillReplacement(const AttentionArgs& args, ForwardParams& p) {
  if (!args.replacement) return;
  p.replacement = args.replacement.Raw<float>();
  p.replacement_batch = args.replacement.stride[0];
  p.replacement_row = args.replacement.stride[1];
  p.replacement_head = args.replacement.stride[2];
}

void FillGates(const AttentionArgs& args, ForwardParams& p) {
  if (!args.gates) return;
  p.gates = args.gates.Raw<float>();
  p.gate_batch = args.gates.stride[0];
  p.gate_row = args.gates.stride[1];
  p.gate_head = args.gates.stride[2];
  FillReplacement(args, p);
}

void FillShape(const AttentionProblem& problem, const AttentionArgs& args,
               ScoreShape& shape) {
  shape.soft_cap = problem.soft_cap;
  if (problem.bias == AttentionBias::kAlibi) {
    shape.alibi = args.alibi_slopes.Raw<float>();
    shape.alibi_head = args.alibi_slopes.stride[0];
  }
  if (problem.bias == AttentionBias::kRelative) {
    shape.table = args.relative_table.Raw<float>();
    shape.table_head = args.relative_table.stride[0];
    shape.reach = static_cast<int>(problem.relative_reach);
  }
}

// Everything but outputs.
ForwardParams Inputs(const AttentionProblem& problem, const AttentionArgs& args,
                     int block, size_t cache_bytes) {
  ForwardParams p;
  p.query_len = static_cast<int>(problem.query_len);
  p.key_len = static_cast<int>(problem.key_len);
  p.head_dim = static_cast<int>(problem.head_dim);
  p.value_dim = static_cast<int>(ValueDim(problem));
  p.queries_per_kv = static_cast<int>(problem.heads / problem.kv_heads);
  p.query_offset = Clamped(problem.mask.query_offset);
  p.packed = problem.packed;
  p.element = problem.type == DType::kF32   ? Element::kF32
              : problem.type == DType::kF16 ? Element::kF16
                                            : Element::kBf16;
  p.scale = static_cast<float>(Scale(problem));
  p.scale_log2 = static_cast<float>(Scale(problem) * std::numbers::log2e);
  FillShape(problem, args, p.shape);
  p.sink_logits = args.sink_logits.Raw<float>();
  p.band = {Clamped(problem.mask.before), Clamped(problem.mask.after),
            Clamped(problem.mask.sinks)};
  const int64_t kv_bytes =
      problem.key_len * (problem.head_dim + ValueDim(problem)) * 2;
  p.order.blocks = CeilDiv(p.query_len, block);
  p.order.heads = static_cast<int>(args.active_heads.is_all()
                                       ? problem.heads
                                       : args.active_heads.heads().size());
  p.order.sequences = static_cast<int>(problem.batch);
  // Half of the cache: queries and outputs pass through it too.
  p.order.section = SectionPairs(kv_bytes, p.queries_per_kv, cache_bytes / 2);
  p.q = RowsView(args.q);
  p.k = RowsView(args.k);
  p.v = RowsView(args.v);
  p.query_lengths = args.query_lengths.Raw<int32_t>();
  p.key_lengths = args.key_lengths.Raw<int32_t>();
  p.query_starts = args.query_starts.Raw<int32_t>();
  p.key_starts = args.key_starts.Raw<int32_t>();
  p.query_offsets = args.query_offsets.Raw<int32_t>();
  p.lse = ResultView(args.lse);
  FillGates(args, p);
  return p;
}

DeviceBuffer ActiveHeads(const AttentionArgs& args, cudaStream_t stream,
                         ForwardParams& p) {
  const std::span<const int32_t> listed = args.active_heads.heads();
  if (listed.empty()) return {};  // all, or none of one source of several
  DeviceBuffer heads(listed.data(), listed.size_bytes(), stream);
  p.active_heads = heads.Raw<int32_t>();
  return heads;
}

}  // namespace

DeviceBuffer ActiveFlags(const AttentionProblem& problem,
                         const AttentionArgs& args, cudaStream_t stream) {
  if (args.active_heads.is_all()) return {};
  std::vector<uint8_t> flags(problem.heads, 0);
  for (const int32_t head : args.active_heads.heads()) flags[head] = 1;
  return DeviceBuffer(flags.data(), flags.size(), stream);
}

DeviceBuffer ScoreInputs(Context& context, const AttentionProblem& problem,
                         const AttentionArgs& args, ForwardParams& params) {
  params = Inputs(problem, args, 1, ChipOf(problem.device)->cache_bytes);
  params.is_loose = problem.type == DType::kF32 || problem.head_dim % 8 != 0 ||
                    !IsAligned(args.q) || !IsAligned(args.k);
  return ActiveHeads(args, StreamOf(context), params);
}

ForwardCall MakeForward(Context& context, const AttentionProblem& problem,
                        const AttentionArgs& args, int block,
                        bool gathers_full) {
  ForwardCall call;
  call.params =
      Inputs(problem, args, block, ChipOf(problem.device)->cache_bytes);
  ForwardParams& p = call.params;
  p.out = RowsView(args.out);
  p.ungated = RowsView(args.ungated);
  call.active_heads = ActiveHeads(args, StreamOf(context), p);
  p.counters = CudaOf(context).Counters(2);
  call.observation = MakeObservation(context, problem, args, block, p);
  const bool core = p.entropy.data != nullptr ||
                    p.max_probability.data != nullptr ||
                    p.argmax.data != nullptr || p.distance.data != nullptr;
  if (core) call.gathered = Statistics::kCore;
  if (gathers_full && call.observation.numbers) {
    call.gathered = Statistics::kFull;
    call.observation.observe.forward = p;
  }
  return call;
}

namespace {

// What the gradients of entropies and of a relative table need; row_bytes: of
// a float for each row.
void FillScoreGradients(const AttentionProblem& problem,
                        const AttentionGrads& grads, size_t row_bytes,
                        cudaStream_t stream, BackwardCall& call) {
  BackwardParams& p = call.params;
  if (grads.dentropy || grads.drelative_table) {
    call.log_weight = DeviceBuffer(row_bytes, stream);
    p.log_weight = call.log_weight.Raw<float>();
  }
  if (!grads.drelative_table) return;
  const WorkOrder& order = p.forward.order;
  const int64_t width = 2 * problem.relative_reach + 1;
  p.table_parts =
      TableParts(order.blocks * order.sequences, order.heads, width);
  call.tables =
      DeviceBuffer(sizeof(float) * width * order.heads * p.table_parts, stream);
  p.tables = call.tables.Raw<float>();
}

}  // namespace

void BackwardViews(const AttentionProblem& problem, const AttentionArgs& args,
                   const AttentionGrads& grads, BackwardParams& p) {
  p.o = RowsView(args.gates ? args.ungated : args.out);
  p.dout = RowsView(grads.dout);
  p.dq = RowsView(grads.dq);
  p.dk = RowsView(grads.dk);
  p.dv = RowsView(grads.dv);
  p.received = ResultView(grads.received);
  p.dentropy = Strides<const float>(grads.dentropy);
  if (grads.dgates) {
    // By a gate that is 1, too.
    FillReplacement(args, p.forward);
    p.dgates = grads.dgates.Raw<float>();
    p.dgate_batch = grads.dgates.stride[0];
    p.dgate_row = grads.dgates.stride[1];
    p.dgate_head = grads.dgates.stride[2];
  }
  if (grads.drelative_table) {
    p.dtable = grads.drelative_table.Raw<float>();
    p.dtable_head = grads.drelative_table.stride[0];
  }
  p.dsink_logits = grads.dsink_logits.Raw<float>();
  p.heads = static_cast<int>(problem.heads);
  p.kv_heads = static_cast<int>(problem.kv_heads);
  p.sequences = static_cast<int>(problem.batch);
  p.scale = static_cast<float>(Scale(problem));
  p.is_half = problem.type == DType::kF16;
}

SinkGradientParams SinkGradient(const BackwardParams& p) {
  SinkGradientParams result;
  result.forward = p.forward;
  result.delta = p.delta;
  result.dentropy = p.dentropy;
  result.dsink_logits = p.dsink_logits;
  result.row_len = p.padded_len;
  result.heads = p.heads;
  return result;
}

BackwardCall MakeBackward(Context& context, const AttentionProblem& problem,
                          const AttentionArgs& args,
                          const AttentionGrads& grads, int query_block,
                          int key_block) {
  const cudaStream_t stream = StreamOf(context);
  BackwardCall call;
  BackwardParams& p = call.params;
  p.forward =
      Inputs(problem, args, query_block, ChipOf(problem.device)->cache_bytes);
  call.active_heads = ActiveHeads(args, stream, p.forward);
  call.is_active = ActiveFlags(problem, args, stream);
  p.is_active = call.is_active.Raw<uint8_t>();
  BackwardViews(problem, args, grads, p);
  p.padded_len = CeilDiv(p.forward.query_len, kRowPadding) * kRowPadding;
  const size_t row_bytes = std::max<size_t>(
      1, sizeof(float) * p.padded_len * problem.heads * problem.batch);
  call.lse_log2 = DeviceBuffer(row_bytes, stream);
  call.delta = DeviceBuffer(row_bytes, stream);
  p.lse_log2 = call.lse_log2.Raw<float>();
  p.delta = call.delta.Raw<float>();
  FillScoreGradients(problem, grads, row_bytes, stream, call);
  p.d_o = p.dout;
  call.d_o_view = grads.dout;
  if (args.gates) {
    const ViewSizes sizes = SizesOf(problem, args);
    const int64_t row = problem.heads * ValueDim(problem);
    call.d_o = DeviceBuffer(
        std::max<int64_t>(1, sizes.batch * sizes.queries * row) * 2, stream);
    p.d_o = {call.d_o.Raw<void>(), sizes.queries * row, row, ValueDim(problem)};
    call.d_o_view = ConstTensorView(
        p.d_o.data, problem.type,
        {sizes.batch, sizes.queries, problem.heads, ValueDim(problem)});
  }
  const int64_t q_bytes = problem.query_len * p.forward.queries_per_kv *
                          (problem.head_dim + ValueDim(problem)) * 2;
  p.key_order = {
      CeilDiv(p.forward.key_len, key_block), p.kv_heads,
      static_cast<int>(problem.batch),
      SectionPairs(q_bytes, 1, ChipOf(problem.device)->cache_bytes / 2)};
  p.forward.counters = CudaOf(context).Counters(4);  // two kernels
  return call;
}

}  // namespace headwise::attention_cuda
