// Layers whose heads are run with zero columns give what the same layers give
// without: outputs, gradients, statistics, steps over a cache. On the host
// padding is forced; on a GPU it is what the fast kernels ask for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "headwise/backend/device_backend.h"
#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/nn/cache_split.h"
#include "headwise/observation.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/rope/rope.h"
#include "headwise/tensor/slice.h"

namespace headwise::attention_padding_test {
namespace {

constexpr int64_t kWidth = 10, kHeads = 4, kGroups = 2;

using Results = std::map<std::string, std::vector<float>>;

// Random numbers on a context's device, the same for every device.
Tensor Random(Context& context, DType type, const Shape& shape, Rng& rng,
              double base = 0) {
  Tensor host(DType::kF32, shape);
  for (int64_t i = 0; i < host.size(); ++i) {
    host.As<float>()[i] = static_cast<float>(base + 0.4 * rng.Normal());
  }
  Tensor there = Tensor::Undefined(context, type, shape);
  Copy(context, host.view(), there.view());
  context.Synchronize();
  return there;
}

struct Case {
  uint64_t seed = 0;
  int64_t head_dim = 0, value_dim = 0;
  bool turned = false, normed = false, sinks = false, keys_are_values = false;
  int64_t gates = 0;  // columns of the output gate

  std::string Text() const {
    return "seed " + std::to_string(seed) + ", heads of " +
           std::to_string(head_dim) + " and " + std::to_string(value_dim) +
           (turned ? ", rotary" : "") + (normed ? ", normed" : "") +
           (sinks ? ", sinks" : "") +
           (keys_are_values ? ", keys as values" : "") + ", " +
           std::to_string(gates) + " output gates";
  }
};

Case CaseOf(uint64_t seed) {
  Rng rng(seed, 7);
  Case c;
  c.seed = seed;
  c.head_dim = rng.Between(1, 21);
  c.value_dim = rng.Uniform() < 0.5 ? c.head_dim : rng.Between(1, 21);
  c.turned = c.head_dim % 2 == 0 && rng.Uniform() < 0.7;
  c.normed = rng.Uniform() < 0.5;
  c.sinks = rng.Uniform() < 0.5;
  c.keys_are_values = c.value_dim == c.head_dim && rng.Uniform() < 0.5;
  const int64_t gates[] = {0, kHeads, kHeads * c.value_dim};
  c.gates = gates[rng.Below(3)];
  return c;
}

// Gates (one closed head among them), a replacement, and statistics.
class Hooks : public RunHooks {
 public:
  Hooks(Context& context, const Case& of, int64_t rows, bool replaces,
        Results& results)
      : context_(context), replaces_(replaces), results_(results) {
    Rng rng(of.seed, 3);
    gates_ = Random(context, DType::kF32, {kHeads}, rng, 0.8);
    Fill(context, 0, Slice(gates_.view(), 0, 1, 2));
    replacement_ = Random(context, DType::kF32, {kHeads, of.value_dim}, rng);
    dgates_ = Tensor(context, DType::kF32, {1, rows, kHeads});
  }

  void BeforeAttention(const AttentionSite& /*site*/,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override {
    EXPECT_EQ(args.q.shape[3], problem.head_dim);
    EXPECT_EQ(args.k.shape[3], problem.head_dim);
    EXPECT_EQ(args.v.shape[3], problem.value_dim);
    const int64_t batch = args.q.shape[0], rows = args.q.shape[1];
    args.gates = Broadcast(std::as_const(gates_).view(), {batch, rows, kHeads});
    if (replaces_) {
      args.replacement = Broadcast(std::as_const(replacement_).view(),
                                   {batch, rows, kHeads, problem.value_dim});
    }
    sums_ = Tensor(context_, DType::kF64,
                   {problem.batch, kHeads, int64_t{kSumColumns}});
    observation_.summed.sums = sums_.view();
    args.observation = &observation_;
  }
  void AfterAttention(const AttentionSite& /*site*/,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override {
    EXPECT_EQ(args.out.shape[3], problem.value_dim);
    Tensor band(context_, DType::kF32,
                {args.q.shape[0], kHeads, args.q.shape[1], 3});
    AttentionBand(context_, problem, args, 2, 0, band.view());
    results_["band"] = ToVector<float>(context_, band.view());
    // Entropies, distances and what was seen; the argmax may turn on rounding.
    const ConstTensorView sums = std::as_const(sums_).view();
    for (const int column : {kSumCount, kSumEntropy, kSumDistance}) {
      results_["sum " + std::to_string(column)] =
          ToVector<float>(context_, At(sums, 2, column));
    }
  }
  void BeforeAttentionBackward(const AttentionSite& /*site*/,
                               const AttentionProblem& /*problem*/,
                               const AttentionArgs& /*args*/,
                               AttentionGrads& grads) override {
    grads.dgates = dgates_.view();
  }
  void AfterAttentionBackward(const AttentionSite& /*site*/,
                              const AttentionProblem& /*problem*/,
                              const AttentionArgs& /*args*/,
                              const AttentionGrads& grads) override {
    results_["dgates"] = ToVector<float>(context_, grads.dgates);
  }
  bool Wants(std::string_view /*activation*/) const override { return true; }
  void Take(std::string_view activation, ConstTensorView value) override {
    results_[std::string(activation)] = ToVector<float>(context_, value);
  }

 private:
  Context& context_;
  bool replaces_;
  Results& results_;
  Tensor gates_, replacement_, sums_, dgates_;
  Observation observation_;
};

// One layer with grouped keys in a context's memory.
class Bench {
 public:
  Bench(Context& context, const Case& of, DType type, int64_t head_multiple)
      : context_(context), of_(of), type_(type) {
    Rng rng(of.seed);
    const int64_t q = kHeads * of.head_dim, k = kGroups * of.head_dim;
    const int64_t v = kGroups * of.value_dim;
    AttentionWeights weights;
    weights.of_x =
        Product("qkv", q + k + (of.keys_are_values ? 0 : v), kWidth, rng);
    weights.output = Product("o", kWidth, kHeads * of.value_dim, rng);
    if (of.sinks) weights.sinks = Values(Trained("sinks", {kHeads}, rng));
    if (of.gates > 0) {
      weights.output_gate = OutputGate(Product("gate", of.gates, kWidth, rng));
    }
    if (of.normed) {
      for (HeadNorms* norm : {&weights.query_norm, &weights.key_norm}) {
        *norm = Norm(NormKind::kRms, 1e-5f,
                     Trained("norm", {of.head_dim}, rng, 1), {});
      }
    }
    if (of.turned) {
      weights.rope = std::make_shared<RopeTable>(
          RopeConfig{.head_dim = of.head_dim, .base = 50});
    }
    AttentionLayerConfig config;
    config.heads = kHeads;
    config.kv_heads = kGroups;
    config.head_dim = of.head_dim;
    config.value_dim = of.value_dim;
    config.mask = AttentionMask::Causal();
    config.head_multiple = head_multiple;
    config.keys_are_values = of.keys_are_values;
    layer_ = AttentionLayer(config, std::move(weights),
                            {AttentionKind::kSelf, 0, "layer"});
    x_ = Random(context, type, {kRows, kWidth}, rng);
    dy_ = Random(context, type, {kRows, kWidth}, rng);
  }

  const AttentionLayer& layer() const { return layer_; }

  // Two sequences forward and back.
  Results Train() {
    Results results;
    const SequenceBatch batch = MakeBatch(std::vector<int64_t>{9, 4});
    Hooks hooks(context_, of_, kRows, /*replaces=*/false, results);
    AttentionSaved saved;
    AttentionInput input;
    input.x = std::as_const(x_).view();
    input.batch = &batch;
    input.hooks = &hooks;
    input.saved = &saved;
    Tensor y(context_, type_, {kRows, kWidth});
    Tensor dx(context_, type_, {kRows, kWidth});
    layer_.Forward(context_, input, y.view(), Store::kOverwrite);
    layer_.Backward(context_, input, saved, std::as_const(dy_).view(),
                    dx.view(), {});
    results["y"] = ToVector<float>(context_, y.view());
    results["dx"] = ToVector<float>(context_, dx.view());
    for (size_t i = 0; i < trained_.size(); ++i) {
      results["gradient " + std::to_string(i)] =
          ToVector<float>(context_, trained_[i]->gradient.view());
    }
    return results;
  }

  // The same rows as one sequence without gradients, heads replaced.
  Results Replace() {
    Results results;
    const SequenceBatch batch = MakeBatch(std::vector<int64_t>{kRows});
    Hooks hooks(context_, of_, kRows, /*replaces=*/true, results);
    AttentionInput input;
    input.x = std::as_const(x_).view();
    input.batch = &batch;
    input.hooks = &hooks;
    Tensor y(context_, type_, {kRows, kWidth});
    layer_.Forward(context_, input, y.view(), Store::kOverwrite);
    results["y"] = ToVector<float>(context_, y.view());
    return results;
  }

  // The same rows in steps over a cache of the widths that the layer asks for,
  // or of its heads' own.
  Results Decode(bool own_widths) {
    const HeadWidths own = {of_.head_dim, of_.value_dim};
    const HeadWidths widths =
        own_widths ? own : layer_.CacheWidths(context_, type_);
    const Shape k = {1, kRows + 3, kGroups, widths.head_dim};
    const Shape v = {1, kRows + 3, kGroups, widths.value_dim};
    Tensor keys(context_, type_, k), values(context_, type_, v);
    std::vector<int32_t> lengths = {0};
    const CacheView cache = {keys.view(), values.view(), lengths};
    return Steps(
        cache, [&](int64_t rows) { lengths[0] += static_cast<int32_t>(rows); });
  }

  // The same where the first group keeps a window only.
  Results DecodeSplit() {
    const HeadWidths widths = layer_.CacheWidths(context_, type_);
    const int64_t kRoom[] = {6, kRows + 3};
    std::vector<Tensor> memory;
    CacheSplit split;
    split.sinks = 1;
    split.window = 3;
    for (int64_t g = 0; g < kGroups; ++g) {
      CachePart part;
      part.first_group = g;
      part.groups = 1;
      part.whole = g > 0;
      for (const int64_t width : {widths.head_dim, widths.value_dim}) {
        memory.emplace_back(context_, type_, Shape{1, kRoom[g], 1, width});
      }
      part.k = memory[memory.size() - 2].view();
      part.v = memory.back().view();
      split.parts.push_back(part);
    }
    std::vector<int32_t> lengths = {0};
    const CacheView cache = {.lengths = lengths, .split = &split};
    return Steps(cache, [&](int64_t rows) {
      lengths[0] += static_cast<int32_t>(rows);
      split.held = split.HeldAfter(rows, kRoom[0]);
    });
  }

 private:
  static constexpr int64_t kRows = 13;
  struct Value {
    Tensor value, gradient, compute;
  };

  template <typename Advance>
  Results Steps(const CacheView& cache, const Advance& advance) {
    Results results;
    int64_t begin = 0;
    for (const int64_t end : {5, 6, 8, 13}) {
      SequenceBatch batch = MakeBatch(std::vector<int64_t>{end - begin});
      for (int32_t& p : batch.positions) p += static_cast<int32_t>(begin);
      AttentionInput input;
      input.x = Rows(std::as_const(x_).view(), begin, end);
      input.batch = &batch;
      input.cache = &cache;
      Tensor y(context_, type_, {end - begin, kWidth});
      layer_.Forward(context_, input, y.view(), Store::kOverwrite);
      results["rows to " + std::to_string(end)] =
          ToVector<float>(context_, y.view());
      advance(end - begin);
      begin = end;
    }
    return results;
  }

  Parameter Trained(const std::string& name, const Shape& shape, Rng& rng,
                    double base = 0) {
    trained_.push_back(std::make_unique<Value>());
    Value& value = *trained_.back();
    value.value = Random(context_, DType::kF32, shape, rng, base);
    value.gradient = Tensor(context_, DType::kF32, shape);
    Parameter parameter = {name, std::as_const(value.value).view(),
                           value.gradient.view()};
    if (type_ != DType::kF32) {
      value.compute = Tensor(context_, type_, shape);
      Copy(context_, value.value.view(), value.compute.view());
      parameter.compute = std::as_const(value.compute).view();
    }
    return parameter;
  }
  Linear Product(const std::string& name, int64_t out, int64_t in, Rng& rng) {
    Parameter weight = Trained(name, {out, in}, rng);
    return Linear({{std::move(weight), {}}}, WeightLayout::kOutIn);
  }

  Context& context_;
  Case of_;
  DType type_;
  std::vector<std::unique_ptr<Value>> trained_;
  AttentionLayer layer_;
  Tensor x_, dy_;
};

void ExpectSame(const Results& want, const Results& got, double tolerance,
                const std::string& where) {
  ASSERT_EQ(want.size(), got.size()) << where;
  for (const auto& [name, values] : want) {
    ASSERT_TRUE(got.contains(name)) << where << ": no " << name;
    const std::vector<float>& found = got.at(name);
    ASSERT_EQ(values.size(), found.size()) << where << ": " << name;
    float most = 1;
    for (const float value : values) most = std::max(most, std::abs(value));
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], found[i], tolerance * most)
          << where << ": " << name << " [" << i << "]";
    }
  }
}

// Everything with heads as they are, and padded.
void Compare(Context& context, const Case& of, DType type, int64_t multiple,
             double tolerance) {
  const std::string where = of.Text() + ", " + Name(type) + " on " +
                            ToString(context.device()) + ", multiples of " +
                            std::to_string(multiple);
  Bench own(context, of, type, 1), padded(context, of, type, multiple);
  ExpectSame(own.Train(), padded.Train(), tolerance, where);
  ExpectSame(own.Replace(), padded.Replace(), tolerance, where);
  const Results steps = own.Decode(true);
  ExpectSame(steps, padded.Decode(false), tolerance, where + ", in steps");
  ExpectSame(steps, padded.Decode(true), tolerance, where + ", narrow cache");
  ExpectSame(own.DecodeSplit(), padded.DecodeSplit(), tolerance,
             where + ", cache by role");
}

TEST(PaddedHeads, GiveTheSameOnTheHost) {
  Context context({.threads = 2, .implementations = ""});
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Compare(context, CaseOf(seed), DType::kF32, seed % 3 == 0 ? 16 : 8, 1e-6);
  }
}

TEST(PaddedHeads, AreNotPaddedOnTheHostUnasked) {
  Context context({.threads = 1, .implementations = ""});
  Case of = CaseOf(1);
  of.head_dim = 3;
  of.value_dim = 5;
  of.turned = of.keys_are_values = false;
  of.gates = 0;
  const Bench bench(context, of, DType::kF32, 0);
  EXPECT_EQ(bench.layer().CacheWidths(context, DType::kF32),
            (HeadWidths{3, 5}));
}

TEST(PaddedHeads, GiveTheSameOnAGpu) {
  std::unique_ptr<Context> context;
  try {
    context = std::make_unique<Context>(ContextOptions{
        .threads = 1, .implementations = "", .device = Device::Cuda()});
  } catch (const Error& error) {
    GTEST_SKIP() << "no GPU: " << error.what();
  }
  Context host({.threads = 2, .implementations = ""});
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Case of = CaseOf(seed);
    ExpectSame(Bench(host, of, DType::kF32, 1).Train(),
               Bench(*context, of, DType::kF32, 1).Train(), 1e-4,
               of.Text() + ", host and GPU");
    Compare(*context, of, DType::kF32, 8, 1e-5);
    Compare(*context, of, DType::kBF16, 0, 4e-2);
    const Bench bench(*context, of, DType::kBF16, 0);
    const HeadWidths widths = bench.layer().CacheWidths(*context, DType::kBF16);
    EXPECT_EQ(widths.head_dim % 8, 0) << of.Text();
    EXPECT_EQ(widths.value_dim % 8, 0) << of.Text();
  }
}

}  // namespace
}  // namespace headwise::attention_padding_test
