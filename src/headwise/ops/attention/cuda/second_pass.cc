// Fills the second passes' parameters. Door: second_pass.h.
#include "headwise/ops/attention/cuda/second_pass.h"

#include <algorithm>
#include <span>
#include <vector>

#include "headwise/ops/attention/cuda/arguments.h"
#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/views.h"

namespace headwise::attention_cuda {
namespace {

// Parameters and the device memory that they point into.
struct SecondPassCall {
  SecondPassParams params;
  DeviceBuffer active_heads, rows;
};

SecondPassCall MakeCall(Context& context, const AttentionProblem& problem,
                        const AttentionArgs& args,
                        const std::vector<PassRow>& rows) {
  SecondPassCall call;
  call.active_heads = ScoreInputs(context, problem, args, call.params.forward);
  call.params.is_half = problem.type == DType::kF16;
  if (!rows.empty()) {
    call.rows = DeviceBuffer(rows.data(), rows.size() * sizeof(PassRow),
                             StreamOf(context));
    call.params.rows = call.rows.Raw<PassRow>();
  }
  return call;
}

PassRow PlaceOf(const RowRef& row) {
  return {static_cast<int>(row.sequence), static_cast<int>(row.query)};
}

std::vector<PassRow> PlacesOf(std::span<const RowRef> rows) {
  std::vector<PassRow> places;
  for (const RowRef& row : rows) places.push_back(PlaceOf(row));
  return places;
}

void DenseRows(Context& context, const AttentionProblem& problem,
               const AttentionArgs& args, std::span<const RowRef> rows,
               TensorView probabilities) {
  SecondPassCall call = MakeCall(context, problem, args, PlacesOf(rows));
  call.params.values = Strides<float>(probabilities);
  LaunchRows(call.params, static_cast<int>(rows.size()), StreamOf(context));
}

void LargestKeys(Context& context, const AttentionProblem& problem,
                 const AttentionArgs& args, std::span<const RowRef> rows,
                 TensorView keys, TensorView probabilities) {
  SecondPassCall call = MakeCall(context, problem, args, PlacesOf(rows));
  const cudaStream_t stream = StreamOf(context);
  const int count = static_cast<int>(rows.size());
  const int64_t width = std::max<int64_t>(1, problem.key_len);
  const DeviceBuffer dense(
      std::max(1, count) * problem.heads * width * sizeof(float), stream);
  call.params.dense = {dense.Raw<float>(), {problem.heads * width, width, 1}};
  call.params.values = call.params.dense;
  LaunchRows(call.params, count, stream);
  call.params.values = Strides<float>(probabilities);
  call.params.keys = Strides<int32_t>(keys);
  call.params.top = static_cast<int>(keys.shape[2]);
  LaunchTop(call.params, count, stream);
}

void PairMass(Context& context, const AttentionProblem& problem,
              const AttentionArgs& args, const PairList& pairs,
              ConstTensorView argmax, TensorView mass, TensorView is_argmax) {
  std::vector<PassRow> places;
  for (size_t r = 0; r < pairs.rows.size(); ++r) {
    const int64_t count = pairs.offsets[r + 1] - pairs.offsets[r];
    places.insert(places.end(), count, PlaceOf(pairs.rows[r]));
  }
  if (places.empty()) return;
  SecondPassCall call = MakeCall(context, problem, args, places);
  const DeviceBuffer keys(pairs.keys.data(), pairs.keys.size_bytes(),
                          StreamOf(context));
  call.params.pair_keys = keys.Raw<int32_t>();
  call.params.pairs = static_cast<int>(places.size());
  call.params.values = Strides<float>(mass);
  call.params.argmax = Strides<const int32_t>(argmax);
  call.params.is_argmax = Strides<uint8_t>(is_argmax);
  LaunchPairs(call.params, StreamOf(context));
}

void BandMass(Context& context, const AttentionProblem& problem,
              const AttentionArgs& args, int64_t before, int64_t after,
              TensorView mass, TensorView first) {
  BandParams p;
  const DeviceBuffer active_heads =
      ScoreInputs(context, problem, args, p.forward);
  p.is_half = problem.type == DType::kF16;
  p.before = static_cast<int>(before);
  p.width = static_cast<int>(before + after + 1);
  p.mass = mass.Raw<float>();
  p.mass_batch = mass.stride[0];
  p.mass_head = mass.stride[1];
  p.mass_row = mass.stride[2];
  p.first = ResultView(first);
  LaunchBand(p, StreamOf(context));
}

void ReceivedMass(Context& context, const AttentionProblem& problem,
                  const AttentionArgs& args, ConstTensorView query_weights,
                  TensorView received) {
  ReceivedParams p;
  const DeviceBuffer active_heads =
      ScoreInputs(context, problem, args, p.forward);
  p.is_half = problem.type == DType::kF16;
  p.weights = Strides<const float>(query_weights);
  p.received = Strides<float>(received);
  LaunchReceived(p, StreamOf(context));
}

void WindowPicture(Context& context, const AttentionProblem& problem,
                   const AttentionArgs& args, const WindowRequest& window,
                   TensorView maximum, TensorView mean) {
  SecondPassCall call = MakeCall(context, problem, args, {});
  SecondPassParams& p = call.params;
  p.window = {static_cast<int>(window.sequence),
              static_cast<int>(window.head),
              static_cast<int>(window.query_begin),
              static_cast<int>(window.query_end - window.query_begin),
              static_cast<int>(window.key_begin),
              static_cast<int>(window.key_end - window.key_begin)};
  p.values = Strides<float>(maximum);
  p.mean = Strides<float>(mean);
  const TensorView& picture = maximum ? maximum : mean;
  LaunchWindow(p, static_cast<int>(picture.shape[0]),
               static_cast<int>(picture.shape[1]), StreamOf(context));
}

void Gram(Context& context, std::span<const HeadSource> sources,
          ConstTensorView query_weights, TensorView gram) {
  const cudaStream_t stream = StreamOf(context);
  const AttentionProblem& problem = sources[0].problem;
  std::vector<GramSource> inputs;
  std::vector<GramHead> heads;
  int before = 0;
  for (const HeadSource& source : sources) {
    GramSource input;
    ScoreInputs(context, source.problem, source.args, input.forward);
    input.forward.active_heads = nullptr;  // listed here
    input.is_half = source.problem.type == DType::kF16;
    const int at = static_cast<int>(inputs.size());
    for (int h = 0; h < source.problem.heads; ++h) {
      if (source.args.active_heads.Has(h)) {
        heads.push_back({at, h, before + h});
      }
    }
    before += static_cast<int>(source.problem.heads);
    inputs.push_back(input);
  }
  if (heads.empty()) return;
  GramParams p;
  const DeviceBuffer sources_on_device(
      inputs.data(), inputs.size() * sizeof(GramSource), stream);
  const DeviceBuffer heads_on_device(heads.data(),
                                     heads.size() * sizeof(GramHead), stream);
  p.sources = sources_on_device.Raw<GramSource>();
  p.heads = heads_on_device.Raw<GramHead>();
  p.head_count = static_cast<int>(heads.size());
  p.sequences = static_cast<int>(problem.batch);
  p.query_len = static_cast<int>(problem.query_len);
  p.chunks = CeilDiv(p.query_len, kGramQueries);
  p.weights = Strides<const float>(query_weights);
  p.gram = Strides<double>(gram);
  const size_t rows = std::max(1, p.sequences * p.query_len);
  const DeviceBuffer row_weights(rows * sizeof(float), stream);
  const size_t cells = static_cast<size_t>(p.head_count) * p.head_count;
  const DeviceBuffer partials(
      std::max<size_t>(1, cells * p.sequences * p.chunks) * sizeof(double),
      stream);
  p.row_weights = row_weights.Raw<float>();
  p.partials = partials.Raw<double>();
  LaunchGram(p, stream);
}

struct Pass {
  Context& context;

  void operator()(const AttentionRowsCall& c) const {
    DenseRows(context, c.problem, c.args, c.rows, c.probabilities);
  }
  void operator()(const AttentionTopKCall& c) const {
    LargestKeys(context, c.problem, c.args, c.rows, c.keys, c.probabilities);
  }
  void operator()(const AttentionPairsCall& c) const {
    PairMass(context, c.problem, c.args, c.pairs, c.argmax, c.mass,
             c.is_argmax);
  }
  void operator()(const AttentionBandCall& c) const {
    BandMass(context, c.problem, c.args, c.before, c.after, c.mass, c.first);
  }
  void operator()(const AttentionReceivedCall& c) const {
    ReceivedMass(context, c.problem, c.args, c.query_weights, c.received);
  }
  void operator()(const AttentionWindowCall& c) const {
    WindowPicture(context, c.problem, c.args, c.window, c.maximum, c.mean);
  }
  void operator()(const AttentionGramCall& c) const {
    Gram(context, c.sources, c.query_weights, c.gram);
  }
  // Not here.
  void operator()(const AttentionForwardCall&) const {}
  void operator()(const AttentionBackwardCall&) const {}
};

}  // namespace

void RunSecondPass(Context& context, const AttentionCall& call) {
  std::visit(Pass{context}, call);
}

}  // namespace headwise::attention_cuda
