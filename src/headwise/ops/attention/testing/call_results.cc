#include "headwise/ops/attention/testing/call_results.h"

#include <utility>

#include "headwise/ops/attention/geometry.h"
#include "headwise/ops/attention/padding.h"

namespace headwise {
namespace {

constexpr uint64_t kStream = 1;  // of the seed; the problem itself is stream 0

AttentionProblem At(AttentionProblem problem, Device device) {
  problem.device = device;
  return problem;
}

}  // namespace

Device DeviceOf(const std::string& implementation) {
  return implementation.starts_with("cuda.") ? Device::Cuda() : Device{};
}

CallResults::CallResults(const RandomProblem& problem,
                         const std::string& implementation, int threads,
                         std::set<AttentionPass> passes, int64_t head_multiple)
    : r_(problem),
      passes_(std::move(passes)),
      head_multiple_(head_multiple),
      context_({.threads = threads,
                .implementations = "attention:" + implementation,
                .device = DeviceOf(implementation)}),
      problem_(At(problem.problem, context_.device())),
      mirror_(context_),
      rng_(problem.seed, kStream) {
  for (const TestTensor& tensor : r_.tensors) mirror_.Add(tensor);
  args_ = mirror_.On(r_.args);
  observation_ = mirror_.On(r_.observation);
  RunForward();
  if (Has(AttentionPass::kBackward)) RunBackward();
  RunRowPasses();
  RunMapPasses();
  if (Has(AttentionPass::kGram)) RunGram();
  for (const CallOutput& output : outputs_) mirror_.Download(output.tensor);
}

const CallOutput* CallResults::Find(const std::string& name) const {
  for (const CallOutput& output : outputs_) {
    if (output.name == name) return &output;
  }
  return nullptr;
}

TensorView CallResults::Add(const std::string& name, DType type,
                            const std::vector<int64_t>& shape, Measure measure,
                            int head_axis) {
  const Layout layout = rng_.Uniform() < 0.5 ? Layout::kDense : Layout::kRandom;
  outputs_.push_back(
      {name, TestTensor(type, shape, layout, rng_), measure, head_axis});
  mirror_.Add(outputs_.back().tensor);
  return mirror_.On(outputs_.back().tensor.view());
}

TensorView CallResults::MayAdd(const std::string& name, DType type,
                               const std::vector<int64_t>& shape,
                               Measure measure, int head_axis) {
  if (rng_.Uniform() < 0.25) return {};
  return Add(name, type, shape, measure, head_axis);
}

void CallResults::AddRowStatistics(Observation& o) {
  const ViewSizes n = SizesOf(r_.problem, r_.args);
  const int64_t heads = r_.problem.heads;
  auto row = [&](const char* name, DType type = DType::kF32) {
    return MayAdd(name, type, {n.batch, heads, n.queries},
                  type == DType::kI32 ? Measure::kArgmax : Measure::kStatistic,
                  1);
  };
  auto rows = [&](const char* name, int64_t columns) {
    return MayAdd(name, DType::kF32, {n.batch, heads, n.queries, columns},
                  Measure::kStatistic, 1);
  };
  o.rows.entropy = row("entropy");
  o.rows.max_probability = row("max_probability");
  o.rows.argmax = row("argmax", DType::kI32);
  o.rows.distance = row("distance");
  o.rows.missing = row("missing");
  if (o.key_features) {
    o.rows.feature_mass = rows("feature_mass", o.key_features.shape[2]);
  }
  if (o.query_labels) {
    o.rows.label_mass = rows("label_mass", o.query_labels.shape[0]);
  }
  if (o.statistics != Statistics::kFull) return;
  o.rows.varentropy = row("varentropy");
  o.rows.sum_squares = row("sum_squares");
  o.rows.kept_max = row("kept_max");
  o.rows.kept_argmax = row("kept_argmax", DType::kI32);
  o.rows.histogram = rows("histogram", kHistogramBuckets);
}

void CallResults::AddSums(Observation& o) {
  auto sums = [&](const char* name, int64_t columns, Measure measure) {
    return MayAdd(name, DType::kF64,
                  {r_.problem.batch, r_.problem.heads, columns}, measure, 1);
  };
  o.summed.sums = sums("sums", kSumColumns, Measure::kSums);
  if (o.key_features) {
    o.summed.feature_mass = sums("summed feature_mass", o.key_features.shape[2],
                                 Measure::kStatistic);
  }
  if (o.query_labels) {
    o.summed.label_mass =
        sums("summed label_mass", o.query_labels.shape[0], Measure::kStatistic);
  }
  if (o.statistics == Statistics::kFull) {
    o.summed.histogram =
        sums("summed histogram", kHistogramBuckets, Measure::kStatistic);
  }
}

void CallResults::Forward(const AttentionProblem& problem,
                          const AttentionArgs& args) {
  if (head_multiple_ == 0) return AttentionForward(context_, problem, args);
  AttentionForwardPadded(context_, problem, args,
                         {RoundedUp(problem, head_multiple_)});
}

void CallResults::RunForward() {
  const AttentionProblem& p = problem_;
  const ViewSizes n = SizesOf(p, r_.args);
  args_.out = Add("out", p.type, {n.batch, n.queries, p.heads, ValueDim(p)},
                  Measure::kOutput, 2);
  const bool need_lse = passes_.size() > (Has(AttentionPass::kForward) ? 1 : 0);
  const std::vector<int64_t> rows = {n.batch, p.heads, n.queries};
  if (need_lse || rng_.Uniform() < 0.5) {
    args_.lse = Add("lse", DType::kF32, rows, Measure::kStatistic, 1);
  }
  if ((args_.gates && Has(AttentionPass::kBackward)) || rng_.Uniform() < 0.2) {
    args_.ungated =
        Add("ungated", p.type, {n.batch, n.queries, p.heads, ValueDim(p)},
            Measure::kOutput, 2);
  }
  // Without any observation, rows alone, sums alone, or both.
  const double what = rng_.Uniform();
  if (what > 0.25) {
    if (what < 0.8) AddRowStatistics(observation_);
    if (what > 0.5) AddSums(observation_);
    args_.observation = &observation_;
  }
  Forward(p, args_);
}

void CallResults::RunBackward() {
  const AttentionProblem& p = problem_;
  const ViewSizes n = SizesOf(p, r_.args);
  AttentionGrads grads;
  grads.dout = mirror_.On(r_.dout);
  grads.dentropy = mirror_.On(r_.dentropy);
  auto add = [&](const char* name, DType type,
                 const std::vector<int64_t>& shape, int head_axis) {
    return MayAdd(name, type, shape, Measure::kGradient, head_axis);
  };
  grads.dq = add("dq", p.type, {n.batch, n.queries, p.heads, p.head_dim}, 2);
  grads.dk = add("dk", p.type, {n.batch, n.keys, p.kv_heads, p.head_dim}, -1);
  grads.dv = add("dv", p.type, {n.batch, n.keys, p.kv_heads, ValueDim(p)}, -1);
  grads.dgates = add("dgates", DType::kF32, {n.batch, n.queries, p.heads}, 2);
  grads.received = add("received", DType::kF32, {n.batch, p.heads, n.keys}, 1);
  if (p.bias == AttentionBias::kRelative) {
    grads.drelative_table =
        Add("drelative_table", DType::kF32, {p.heads, 2 * p.relative_reach + 1},
            Measure::kGradient, -1);
    outputs_.back().tensor.FillUniform(rng_, -1, 1);  // it is added to
    mirror_.Upload(outputs_.back().tensor);
  }
  if (args_.sink_logits) {
    grads.dsink_logits =
        Add("dsink_logits", DType::kF32, {p.heads}, Measure::kGradient, -1);
    outputs_.back().tensor.FillUniform(rng_, -1, 1);
    mirror_.Upload(outputs_.back().tensor);
  }
  if (head_multiple_ == 0) return AttentionBackward(context_, p, args_, grads);
  AttentionBackwardPadded(context_, p, args_, grads,
                          {RoundedUp(p, head_multiple_)});
}

void CallResults::RunRowPasses() {
  const AttentionProblem& p = problem_;
  const int64_t rows = static_cast<int64_t>(r_.rows.size());
  const int64_t pairs = static_cast<int64_t>(r_.pair_keys.size());
  if (Has(AttentionPass::kRows)) {
    AttentionRows(context_, p, args_, r_.rows,
                  Add("rows", DType::kF32, {rows, p.heads, p.key_len},
                      Measure::kStatistic, 1));
  }
  if (Has(AttentionPass::kTopK)) {
    const TensorView keys = Add("top keys", DType::kI32,
                                {rows, p.heads, r_.top_k}, Measure::kArgmax, 1);
    const TensorView probabilities =
        Add("top probabilities", DType::kF32, {rows, p.heads, r_.top_k},
            Measure::kStatistic, 1);
    AttentionTopK(context_, p, args_, r_.rows, keys, probabilities);
  }
  if (Has(AttentionPass::kPairs)) {
    const TensorView mass =
        Add("pair mass", DType::kF32, {p.heads, pairs}, Measure::kStatistic, 0);
    const ConstTensorView argmax =
        args_.observation != nullptr ? observation_.rows.argmax : TensorView{};
    TensorView is_argmax;
    if (argmax) {
      is_argmax = Add("pair is_argmax", DType::kU8, {p.heads, pairs},
                      Measure::kArgmax, 0);
    }
    AttentionPairs(context_, p, args_, r_.pairs(), argmax, mass, is_argmax);
  }
}

void CallResults::RunMapPasses() {
  const AttentionProblem& p = problem_;
  const ViewSizes n = SizesOf(p, r_.args);
  if (Has(AttentionPass::kReceived)) {
    ReceivedAttention(context_, p, args_, observation_.query_weights,
                      Add("weighted received", DType::kF32,
                          {n.batch, p.heads, n.keys}, Measure::kStatistic, 1));
  }
  if (Has(AttentionPass::kBand)) {
    // Wider than a vector on one side, on the other not.
    const int64_t before = rng_.Between(0, 20), after = rng_.Between(0, 3);
    const TensorView mass = Add(
        "band", DType::kF32, {n.batch, p.heads, n.queries, before + after + 1},
        Measure::kStatistic, 1);
    const TensorView first =
        MayAdd("first key", DType::kF32, {n.batch, p.heads, n.queries},
               Measure::kStatistic, 1);
    AttentionBand(context_, p, args_, before, after, mass, first);
  }
  if (Has(AttentionPass::kWindow) && r_.has_window) {
    const std::vector<int64_t> shape = {r_.picture_rows, r_.picture_columns};
    const TensorView maximum =
        MayAdd("maximum", DType::kF32, shape, Measure::kStatistic, -1);
    const TensorView mean =
        Add("mean", DType::kF32, shape, Measure::kStatistic, -1);
    AttentionWindow(context_, p, args_, r_.window, maximum, mean);
  }
}

// The problem's heads beside the same heads at half the scale.
void CallResults::RunGram() {
  const int64_t heads = 2 * r_.problem.heads;
  const double work = static_cast<double>(heads * heads) *
                      static_cast<double>(r_.problem.query_len) *
                      static_cast<double>(r_.problem.key_len);
  if (work > 2e6) return;
  HeadSource flat{problem_, args_};
  flat.problem.scale = static_cast<float>(Scale(r_.problem) / 2);
  flat.args.observation = nullptr;
  flat.args.ungated = {};
  const ViewSizes n = SizesOf(r_.problem, r_.args);
  flat.args.out =
      Add("flat out", r_.problem.type,
          {n.batch, n.queries, r_.problem.heads, ValueDim(r_.problem)},
          Measure::kOutput, 2);
  flat.args.lse =
      Add("flat lse", DType::kF32, {n.batch, r_.problem.heads, n.queries},
          Measure::kStatistic, 1);
  Forward(flat.problem, flat.args);
  const HeadSource sources[] = {{problem_, args_}, flat};
  const TensorView gram =
      Add("gram", DType::kF64, {heads, heads}, Measure::kStatistic, -1);
  // Inactive heads' part is left untouched; a known value takes their place.
  for (int64_t i = 0; i < heads * heads; ++i) {
    outputs_.back().tensor.Set(i, 0.5);
  }
  mirror_.Upload(outputs_.back().tensor);
  HeadGram(context_, sources, observation_.query_weights, gram);
}

}  // namespace headwise
