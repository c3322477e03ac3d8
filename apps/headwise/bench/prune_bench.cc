// Door: prune_bench.h.
#include "bench/prune_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "bench/measure.h"
#include "headwise/base/rng.h"
#include "headwise/context.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/ops/copy/copy.h"

namespace headwise::bench {
namespace {

constexpr int64_t kWidth = 768, kHeads = 12, kHeadDim = 64;
constexpr int64_t kMixtureWidth = 512;
constexpr int64_t kShortSpan = 32;  // of heads beside a long one
// Random numbers of a tensor; a larger one repeats them.
constexpr int64_t kMostDrawn = int64_t{1} << 22;

// Where a layer runs, and on how much.
struct Place {
  Context& context;
  DType type = DType::kF32;
  int64_t sequences = 1, tokens = 0;  // of each

  int64_t rows() const { return sequences * tokens; }
  Tensor Random(uint64_t stream, const Shape& shape, float deviation) const {
    Tensor tensor(DType::kF32, shape);
    Rng rng(11, stream);
    float* values = tensor.As<float>();
    const int64_t drawn = std::min(tensor.size(), kMostDrawn);
    for (int64_t i = 0; i < drawn; ++i) {
      values[i] = deviation * static_cast<float>(rng.Normal());
    }
    for (int64_t i = drawn; i < tensor.size(); ++i) {
      values[i] = values[i - drawn];
    }
    if (context.device().is_cpu() && type == DType::kF32) return tensor;
    Tensor there(context, type, shape);
    Copy(context, std::as_const(tensor).view(), there.view());
    context.Synchronize();  // `tensor` goes
    return there;
  }
  Tensor Zeros(const Shape& shape) const { return {context, type, shape}; }
};

// What a layer's heads are like besides their number.
enum class Limited : uint8_t { kNo, kSpans, kMixture };

// One layer to time.
struct Case {
  std::string what;
  int64_t width = kWidth;
  int64_t heads = kHeads;
  double proportion = 0;
  Limited limited = Limited::kNo;
  int64_t active = 0;    // of a mixture: heads a token, none of them shared
  bool trained = false;  // backward, too
  size_t beside = 0;     // the case of which the time is a share
};

// A layer and what it works on; kept alive by closures.
struct Sublayer {
  Sublayer(const Place& place, const Case& one)
      : context(place.context), trained(one.trained) {
    const int64_t heads = one.heads, width = one.width, rows = place.rows();
    const float deviation = 0.04f;
    weights.push_back(
        place.Random(1, {3 * heads * kHeadDim, width}, deviation));
    weights.push_back(place.Random(2, {width, heads * kHeadDim}, deviation));
    gradients.resize(3);
    AttentionWeights parts;
    parts.of_x = Product(0, "inputs");
    parts.output = Product(1, "output");
    if (one.limited == Limited::kSpans) AddSpans(place.tokens, heads, parts);
    if (one.limited == Limited::kMixture) AddRouter(place, one, parts);
    AttentionLayerConfig config;
    config.heads = config.kv_heads = heads;
    config.head_dim = kHeadDim;
    config.mask = AttentionMask::Causal();
    layer = AttentionLayer(config, std::move(parts), {});
    x = place.Random(3, {rows, width}, 1);
    y = place.Zeros({rows, width});
    if (trained) {
      dy = place.Random(6, {rows, width}, 1);
      dx = place.Zeros({rows, width});
    }
    projected = place.Zeros({rows, 3 * heads * kHeadDim});
    joined = place.Random(4, {rows, heads * kHeadDim}, 1);
    batch = MakeBatch(std::vector<int64_t>(static_cast<size_t>(place.sequences),
                                           place.tokens));
  }

  Linear Product(size_t which, const char* name) {
    const Tensor& weight = weights[which];
    Parameter parameter = {.name = name, .value = weight.view()};
    if (trained) {
      gradients[which] =
          Tensor(DType::kF32, {weight.shape(0), weight.shape(1)});
      parameter.gradient = gradients[which].view();
    }
    return {{{std::move(parameter), {}}}, WeightLayout::kOutIn};
  }
  // One head sees everything, the others the nearest tokens.
  void AddSpans(int64_t tokens, int64_t heads, AttentionWeights& parts) {
    Tensor spans(DType::kF32, {heads});
    for (int64_t h = 0; h < heads; ++h) {
      spans.As<float>()[h] =
          h == 0 ? 1.0f
                 : static_cast<float>(kShortSpan) / static_cast<float>(tokens);
    }
    weights.push_back(std::move(spans));
    parts.spans =
        HeadSpans({.ramp = kShortSpan, .limit = tokens},
                  Parameter{.name = "spans", .value = weights.back().view()});
  }
  void AddRouter(const Place& place, const Case& one, AttentionWeights& parts) {
    weights.push_back(place.Random(5, {one.heads, one.width}, 0.04f));
    parts.gates = HeadGates(
        {.kind = GateKind::kMixture, .shared = 0, .active = one.active},
        {.log_alpha = {}, .router = Product(weights.size() - 1, "router")},
        one.heads);
  }

  void Run() {
    AttentionInput input;
    AttentionSaved saved;
    input.x = std::as_const(x).view();
    input.batch = &batch;
    if (trained) input.saved = &saved;
    layer.Forward(context, input, y.view(), Store::kOverwrite);
    if (!trained) return;
    layer.Backward(context, input, saved, std::as_const(dy).view(), dx.view(),
                   {});
  }
  void Project() {
    layer.inputs()[0]->Forward(context, x.view(), projected.view());
  }
  void Mix() { layer.output().Forward(context, joined.view(), y.view()); }

  Context& context;
  bool trained;
  std::vector<Tensor> weights, gradients;
  AttentionLayer layer;
  Tensor x, y, dy, dx, projected, joined;
  SequenceBatch batch;
};

// Spans and mixtures work for parts of their heads on the CPU alone.
std::vector<Case> Cases(Device device) {
  std::vector<Case> cases;
  for (const int64_t heads : {kHeads, 3 * kHeads / 4, kHeads / 2, kHeads / 4}) {
    cases.push_back({.what = fmt::format("{} of {} heads", heads, kHeads),
                     .heads = heads,
                     .proportion = static_cast<double>(heads) / kHeads});
  }
  if (!device.is_cpu()) return cases;
  cases.push_back({.what = fmt::format("11 spans of {}, one long", kShortSpan),
                   .limited = Limited::kSpans});
  for (const bool trained : {false, true}) {
    const size_t all = cases.size();
    for (const int64_t active : {8, 4, 2}) {
      cases.push_back({.what = fmt::format("mixture, {} of 8 a token{}", active,
                                           trained ? ", trained" : ""),
                       .width = kMixtureWidth,
                       .heads = 8,
                       .limited = Limited::kMixture,
                       .active = active,
                       .trained = trained,
                       .beside = all});
    }
  }
  return cases;
}

// Calls of a device as a model makes them: one behind the other, and the host
// waits for the last.
std::function<double(int)> TimedInAQueue(Context& context,
                                         std::function<void()> call) {
  return [&context, call = std::move(call)](int calls) {
    return Timed([&] {
      for (int i = 0; i < calls; ++i) call();
      context.Synchronize();
    })(1);
  };
}

void Time(const PruneBenchOptions& options, int threads,
          PruneBenchResult& result) {
  ContextOptions where = options.where;
  where.threads = threads;
  Context context(where);
  const Place place = {context, options.type, options.sequences,
                       options.tokens};
  const std::vector<Case> cases = Cases(context.device());
  std::vector<Candidate> candidates;
  std::vector<size_t> first;  // candidate of each case
  for (const Case& one : cases) {
    const auto layer = std::make_shared<Sublayer>(place, one);
    first.push_back(candidates.size());
    for (void (Sublayer::*part)() :
         {&Sublayer::Run, &Sublayer::Project, &Sublayer::Mix}) {
      const auto run = [layer, part] { (*layer.*part)(); };
      candidates.emplace_back().time = context.device().is_cpu()
                                           ? TimedByWork(threads, run)
                                           : TimedInAQueue(context, run);
      if (one.limited == Limited::kMixture) break;  // it has other products
    }
  }
  MeasureOptions measure;
  measure.budget_seconds = options.seconds;
  measure.max_rounds = 201;
  Measure(measure, candidates);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Candidate* timed = &candidates[first[i]];
    PruneBenchRow row;
    row.what = cases[i].what;
    row.threads = threads;
    row.ms = timed->row.ms;
    row.spread = timed->row.spread;
    row.share = row.ms / candidates[first[cases[i].beside]].row.ms;
    row.proportion = cases[i].proportion;
    if (cases[i].limited != Limited::kMixture) {
      row.projections_ms = timed[1].row.ms;
      row.output_ms = timed[2].row.ms;
    }
    result.rows.push_back(std::move(row));
  }
}

}  // namespace

PruneBenchResult BenchPrune(const PruneBenchOptions& options) {
  PruneBenchResult result;
  result.tokens = options.tokens;
  result.sequences = options.sequences;
  const bool cpu = options.where.device.is_cpu();
  result.title = fmt::format(
      "attention sub-layer, width {}, {} heads × {}{}, {}{} tokens, causal, {} "
      "on {}; {}; medians",
      kWidth, kHeads, kHeadDim,
      cpu ? fmt::format(" (mixtures: width {}, 8 heads)", kMixtureWidth) : "",
      options.sequences > 1 ? fmt::format("{} × ", options.sequences) : "",
      options.tokens, Name(options.type), ToString(options.where.device),
      cpu ? "one thread: processor time, several: the clock" : "the clock");
  const LoadWatch watch;
  for (const int threads : options.threads) Time(options, threads, result);
  const std::string note = LoadNote(watch);
  if (!note.empty()) result.notes.push_back(note);
  return result;
}

std::string Table(const PruneBenchResult& result) {
  std::string text =
      fmt::format("  {:<34} {:>7} {:>9} {:>7} {:>7} {:>9} {:>11} {:>9} {:>9}\n",
                  "heads", "threads", "ms", "spread", "share", "of exact",
                  "projections", "attention", "output");
  for (const PruneBenchRow& row : result.rows) {
    const std::string exact =
        row.proportion > 0
            ? fmt::format("{:+.1f} %", 100 * (row.share / row.proportion - 1))
            : "";
    text += fmt::format("  {:<34} {:>7} {:>9.3f} {:>5.1f} % {:>7.3f} {:>9}",
                        row.what, row.threads, row.ms, 100 * row.spread,
                        row.share, exact);
    if (row.has_parts()) {
      text += fmt::format(" {:>11.3f} {:>9.3f} {:>9.3f}", row.projections_ms,
                          row.attention_ms(), row.output_ms);
    }
    text += '\n';
  }
  return text;
}

Json ToJson(const PruneBenchResult& result, const PruneBenchRow& row) {
  Json json = {{"op", "prune"},           {"what", row.what},
               {"tokens", result.tokens}, {"sequences", result.sequences},
               {"threads", row.threads},  {"ms", row.ms},
               {"spread", row.spread},    {"share", row.share}};
  if (row.has_parts()) {
    json["projections_ms"] = row.projections_ms;
    json["attention_ms"] = row.attention_ms();
    json["output_ms"] = row.output_ms;
  }
  if (row.proportion > 0) json["proportion"] = row.proportion;
  return json;
}

}  // namespace headwise::bench
