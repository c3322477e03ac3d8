#include "headwise/ops/attention/testing/random_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "headwise/base/sanitized.h"
#include "headwise/ops/attention/geometry.h"

namespace headwise {
namespace {

constexpr double kLargeFactor = 60;   // one problem in fifty
constexpr double kRoot3 = 1.7320508;  // uniform in ±√3 has variance 1

class Maker {
 public:
  Maker(uint64_t seed, const RandomProblemOptions& options)
      : options_(options), rng_(seed) {
    r_.seed = seed;
  }

  RandomProblem Make() {
    ChooseSizes();
    ChooseMask();
    ChooseBias();
    ChooseSequences();
    FillInputs();
    FillBias();
    FillSinkLogits();
    FillGates();
    ChooseActiveHeads();
    FillObservation();
    ChooseSecondPasses();
    if (options_.non_finite) SpoilSomething();
    return std::move(r_);
  }

 private:
  bool Chance(double probability) { return rng_.Uniform() < probability; }

  template <typename T>
  T Pick(std::initializer_list<T> list) {
    return list.begin()[rng_.Below(list.size())];
  }

  int64_t LogUniform(int64_t low, int64_t high) {
    const double span = std::log(static_cast<double>(high) + 1) -
                        std::log(static_cast<double>(low));
    const double value =
        static_cast<double>(low) * std::exp(span * rng_.Uniform());
    return std::clamp(static_cast<int64_t>(value), low, high);
  }

  // Log-uniform, or beside a power of two, where tiles end.
  int64_t RandomSize() {
    if (Chance(0.8)) return LogUniform(1, options_.max_len);
    const int64_t edge = int64_t{1} << rng_.Between(3, 12);
    return std::min(edge + rng_.Between(-1, 1), options_.max_len);
  }

  TestTensor& Add(DType type, const std::vector<int64_t>& shape) {
    const Layout layout = Chance(0.5) ? Layout::kDense : Layout::kRandom;
    return r_.tensors.emplace_back(type, shape, layout, rng_);
  }

  void ChooseSizes() {
    AttentionProblem& p = r_.problem;
    p.type = options_.types[rng_.Below(options_.types.size())];
    p.head_dim = Pick<int64_t>({1, 4, 8, 48, 64, 80, 96, 128, 192, 256});
    if (Chance(0.25)) {
      p.value_dim = Pick<int64_t>({1, 5, 16, 64, 72, 128, 192, 256});
    }
    if (p.head_dim == 192 && Chance(0.7)) {  // latent attention, and turned
      p.value_dim = 128;
      if (Chance(0.5)) std::swap(p.head_dim, p.value_dim);
    }
    p.batch = Pick<int64_t>({1, 1, 2, 3});
    int64_t group = Pick<int64_t>({1, 1, 2, 8});
    p.kv_heads = Pick<int64_t>({1, 2, 3});
    p.key_len = RandomSize();
    p.query_len = Chance(0.6) ? p.key_len : RandomSize();
    if (options_.max_query_len > 0) {
      p.query_len = rng_.Between(1, options_.max_query_len);
    }
    const double limit =
        options_.work * (Chance(0.02) ? kLargeFactor : rng_.Uniform());
    auto cost = [&] {
      return static_cast<double>(p.batch * group * p.kv_heads) *
             static_cast<double>(p.query_len * p.key_len) *
             static_cast<double>(p.head_dim + ValueDim(p));
    };
    if (cost() > limit && Chance(0.7)) p.batch = 1;
    if (cost() > limit) p.kv_heads = 1;
    if (cost() > limit && Chance(0.6)) group = 1;
    if (cost() > limit && Chance(0.3)) p.head_dim = Pick<int64_t>({1, 4, 8});
    if (cost() > limit && Chance(0.5)) p.value_dim = 0;
    if (options_.every_width) {
      p.head_dim = 1 + static_cast<int64_t>(r_.seed % 256);
    }
    p.heads = group * p.kv_heads;
    if (cost() > limit) {
      // Fewer queries against all keys, or a smaller square.
      const double excess = cost() / limit;
      const bool square = Chance(0.5);
      const double shrink = square ? std::sqrt(excess) : excess;
      auto smaller = [&](int64_t n) {
        return std::max<int64_t>(
            1, static_cast<int64_t>(static_cast<double>(n) / shrink));
      };
      p.query_len = smaller(p.query_len);
      if (square) p.key_len = smaller(p.key_len);
    }
    if (Chance(0.3)) {
      p.scale = static_cast<float>((0.5 + rng_.Uniform()) * Scale(p));
    }
    if (Chance(0.2)) p.soft_cap = Pick<float>({5.0f, 15.0f, 40.0f});
    p.packed = p.batch > 1 && Chance(0.5);
  }

  void ChooseMask() {
    AttentionProblem& p = r_.problem;
    switch (rng_.Below(4)) {
      case 0:
        p.mask = AttentionMask::None();
        break;
      case 1:
        p.mask = AttentionMask::Causal();
        break;
      case 2:
        p.mask = AttentionMask::SlidingWindow(LogUniform(1, p.key_len));
        break;
      default:
        p.mask.before = Chance(0.2) ? kUnlimited : LogUniform(1, 300) - 1;
        p.mask.after = Chance(0.2) ? kUnlimited : LogUniform(1, 300) - 1;
    }
    p.mask.query_offset = RandomOffset();
    if (Chance(0.3)) p.mask.sinks = rng_.Between(1, 5);
  }

  // Chunked prefill, decode after a cache, queries that see little or nothing.
  int64_t RandomOffset() {
    const AttentionProblem& p = r_.problem;
    switch (rng_.Below(6)) {
      case 0:
        return p.key_len - p.query_len;
      case 1:
        return rng_.Between(0, p.key_len);
      case 2:
        return -rng_.Between(0, p.query_len);
      default:
        return 0;
    }
  }

  void ChooseBias() {
    AttentionProblem& p = r_.problem;
    p.bias = Pick({AttentionBias::kNone, AttentionBias::kNone,
                   AttentionBias::kAlibi, AttentionBias::kRelative});
    if (p.bias == AttentionBias::kRelative) {
      p.relative_reach = Chance(0.2) ? 0 : LogUniform(1, 200);
    }
  }

  ConstTensorView AddInts(const std::vector<int32_t>& values) {
    TestTensor& t = r_.tensors.emplace_back(
        DType::kI32, std::vector<int64_t>{static_cast<int64_t>(values.size())},
        Layout::kDense, rng_);
    for (size_t i = 0; i < values.size(); ++i) t.Set(i, values[i]);
    return t.view();
  }

  int32_t RandomLength(int64_t longest) {
    return static_cast<int32_t>(Chance(0.1) ? 0 : rng_.Between(1, longest));
  }

  void ChooseSequences() {
    const AttentionProblem& p = r_.problem;
    const bool ragged = !p.packed && Chance(0.4);
    std::vector<int32_t> queries, keys, offsets;
    std::vector<int32_t> query_starts = {0}, key_starts = {0};
    for (int64_t b = 0; b < p.batch; ++b) {
      queries.push_back(RandomLength(p.query_len));
      keys.push_back(RandomLength(p.key_len));
      offsets.push_back(static_cast<int32_t>(RandomOffset()));
      query_starts.push_back(query_starts.back() + queries.back());
      key_starts.push_back(key_starts.back() + keys.back());
    }
    if (p.packed) {
      r_.args.query_starts = AddInts(query_starts);
      r_.args.key_starts = AddInts(key_starts);
      // Views of packed problems have their totals as sizes.
      r_.args.q.shape[1] = query_starts.back();
      r_.args.k.shape[1] = key_starts.back();
    }
    if (ragged && Chance(0.8)) r_.args.query_lengths = AddInts(queries);
    if (ragged && Chance(0.8)) r_.args.key_lengths = AddInts(keys);
    if (Chance(0.2)) r_.args.query_offsets = AddInts(offsets);
    size_ = SizesOf(p, r_.args);
  }

  // [B, positions, heads, dim], uniform in ±bound. Rows past a sequence's
  // length hold `beyond` (NaN: nobody may look at them).
  TensorView AddRows(int64_t positions, int64_t heads, int64_t dim,
                     double bound, const ConstTensorView& lengths,
                     double beyond) {
    TestTensor& t = Add(r_.problem.type, {size_.batch, positions, heads, dim});
    t.FillUniform(rng_, -bound, bound);
    for (int64_t n = 0; lengths && n < t.size(); ++n) {
      if (t.Index(n, 1) >= lengths.Raw<int32_t>()[t.Index(n, 0)]) {
        t.Set(n, beyond);
      }
    }
    return t.view();
  }

  void FillInputs() {
    const AttentionProblem& p = r_.problem;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    // Standard deviation of scale·q·k; 0 makes every key equal.
    const double spread = Chance(0.05) ? 0 : Pick({0.3, 1.0, 2.0});
    const double unit = Scale(p) * std::sqrt(static_cast<double>(p.head_dim));
    const double value = Pick({0.5, 1.0, 3.0});
    r_.args.q = AddRows(size_.queries, p.heads, p.head_dim,
                        kRoot3 * spread / unit, r_.args.query_lengths, nan);
    r_.args.k = AddRows(size_.keys, p.kv_heads, p.head_dim, kRoot3,
                        r_.args.key_lengths, nan);
    r_.args.v = AddRows(size_.keys, p.kv_heads, ValueDim(p), value,
                        r_.args.key_lengths, nan);
    r_.value_bound = std::max(1.0, value);
    if (ValueDim(p) == p.head_dim && Chance(0.2)) {  // keys are the values
      r_.args.v = r_.args.k;
      r_.value_bound = kRoot3;
    }
    // A gradient of rows that do not count is finite, and must not count.
    r_.dout = AddRows(size_.queries, p.heads, ValueDim(p), 1,
                      r_.args.query_lengths, 7);
    if (Chance(0.5)) {
      TestTensor& t = Add(DType::kF32, {size_.batch, p.heads, size_.queries});
      t.FillUniform(rng_, -1, 1);
      r_.dentropy = t.view();
    }
  }

  void FillBias() {
    const AttentionProblem& p = r_.problem;
    if (p.bias == AttentionBias::kAlibi) {
      // The farthest key gets at most −6.
      const double reach = static_cast<double>(p.query_len + p.key_len +
                                               std::abs(p.mask.query_offset));
      TestTensor& t = Add(DType::kF32, {p.heads});
      t.FillUniform(rng_, 0, 6 / reach);
      r_.args.alibi_slopes = t.view();
    }
    if (p.bias == AttentionBias::kRelative) {
      TestTensor& t = Add(DType::kF32, {p.heads, 2 * p.relative_reach + 1});
      t.FillUniform(rng_, -3, 3);
      r_.args.relative_table = t.view();
    }
  }

  // Beside the keys' scores, far above or below them, or of some heads only.
  void FillSinkLogits() {
    if (!Chance(options_.sinks)) return;
    TestTensor& t = Add(DType::kF32, {r_.problem.heads});
    const double shift = Pick({0.0, 0.0, 0.0, 9.0, -9.0});
    t.FillUniform(rng_, shift - 4, shift + 4);
    for (int64_t h = 0; h < t.size(); ++h) {
      if (Chance(0.1)) t.Set(h, -std::numeric_limits<double>::infinity());
    }
    r_.args.sink_logits = t.view();
  }

  void FillGates() {
    const AttentionProblem& p = r_.problem;
    if (Chance(0.6)) return;
    TestTensor& gates = Add(DType::kF32, {size_.batch, size_.queries, p.heads});
    for (int64_t n = 0; n < gates.size(); ++n) {
      gates.Set(n, Chance(0.2) ? 0 : rng_.Uniform());
    }
    r_.args.gates = gates.view();
    if (Chance(0.5)) r_.args.gates.stride[0] = 0;
    if (Chance(0.5)) r_.args.gates.stride[1] = 0;
    if (Chance(0.4)) return;
    TestTensor& mu =
        Add(DType::kF32, {size_.batch, size_.queries, p.heads, ValueDim(p)});
    mu.FillUniform(rng_, -1, 1);
    r_.args.replacement = mu.view();
    if (Chance(0.6)) {
      r_.args.replacement.stride[0] = 0;
      r_.args.replacement.stride[1] = 0;
    }
  }

  void ChooseActiveHeads() {
    if (r_.problem.heads == 1 || Chance(0.75)) return;
    for (int32_t h = 0; h < r_.problem.heads; ++h) {
      if (Chance(0.5)) r_.active_heads.push_back(h);
    }
    if (!r_.active_heads.empty()) r_.args.active_heads = r_.active_heads;
  }

  void FillObservation() {
    Observation& o = r_.observation;
    o.statistics = Pick({Statistics::kCore, Statistics::kFull});
    if (Chance(0.5)) {
      TestTensor& t = Add(DType::kF32,
                          {size_.batch, size_.keys, Pick<int64_t>({1, 3, 16})});
      for (int64_t n = 0; n < t.size(); ++n) {
        t.Set(n, Chance(0.5) ? static_cast<double>(rng_.Below(2))
                             : 2 * rng_.Uniform() - 1);
      }
      o.key_features = t.view();
    }
    if (Chance(0.5)) {
      const int64_t channels = rng_.Between(1, kMaxLabelChannels);
      TestTensor& q = Add(DType::kI32, {channels, size_.batch, size_.queries});
      TestTensor& k = Add(DType::kI32, {channels, size_.batch, size_.keys});
      for (TestTensor* t : {&q, &k}) {
        for (int64_t n = 0; n < t->size(); ++n) {
          t->Set(n, static_cast<double>(rng_.Between(-1, 3)));
        }
      }
      o.query_labels = q.view();
      o.key_labels = k.view();
    }
    if (Chance(0.5)) {
      TestTensor& t = Add(DType::kU8, {size_.batch, size_.keys});
      for (int64_t n = 0; n < t.size(); ++n) t.Set(n, Chance(0.3) ? 1 : 0);
      o.excluded_keys = t.view();
    }
    if (Chance(0.5)) {
      TestTensor& t = Add(DType::kF32, {size_.batch, size_.queries});
      for (int64_t n = 0; n < t.size(); ++n) {
        t.Set(n, Chance(0.3) ? 0 : rng_.Uniform());
      }
      o.query_weights = t.view();
    }
  }

  void ChooseSecondPasses() {
    const AttentionProblem& p = r_.problem;
    r_.top_k = rng_.Between(1, 9);
    r_.pair_offsets = {0};
    for (int n = 0; n < 6; ++n) {
      const int64_t b = static_cast<int64_t>(rng_.Below(p.batch));
      const Sequence s = SequenceOf(p, r_.args, b);
      if (s.query_rows == 0) continue;
      r_.rows.push_back({b, static_cast<int64_t>(rng_.Below(s.query_rows))});
      for (int64_t c = rng_.Between(0, 4); c > 0 && s.key_rows > 0; --c) {
        r_.pair_keys.push_back(static_cast<int32_t>(rng_.Below(s.key_rows)));
      }
      r_.pair_offsets.push_back(static_cast<int64_t>(r_.pair_keys.size()));
      if (s.key_rows == 0) continue;
      WindowRequest& w = r_.window;
      r_.has_window = true;
      w.sequence = b;
      w.query_begin = static_cast<int64_t>(rng_.Below(s.query_rows));
      w.query_end = rng_.Between(w.query_begin + 1, s.query_rows);
      w.key_begin = static_cast<int64_t>(rng_.Below(s.key_rows));
      w.key_end = rng_.Between(w.key_begin + 1, s.key_rows);
    }
    r_.window.head = r_.active_heads.empty()
                         ? static_cast<int64_t>(rng_.Below(p.heads))
                         : r_.active_heads[rng_.Below(r_.active_heads.size())];
    r_.picture_rows = rng_.Between(1, 12);
    r_.picture_columns = rng_.Between(1, 12);
  }

  // A few NaN or ∞ in one of q, k, v. A soft-cap makes ∞ finite again at the
  // cap, which no kernel need bother with: NaN only there.
  void SpoilSomething() {
    const double inf = std::numeric_limits<double>::infinity();
    const ConstTensorView* targets[] = {&r_.args.q, &r_.args.k, &r_.args.v};
    const void* target = targets[rng_.Below(3)]->data;
    for (TestTensor& t : r_.tensors) {
      if (t.view().data != target || t.size() == 0) continue;
      for (int64_t count = rng_.Between(1, 3); count > 0; --count) {
        const double bad = r_.problem.soft_cap != 0 || Chance(0.5)
                               ? std::nan("")
                               : (Chance(0.5) ? inf : -inf);
        t.Set(static_cast<int64_t>(rng_.Below(t.size())), bad);
      }
    }
  }

  const RandomProblemOptions& options_;
  Rng rng_;
  RandomProblem r_;
  ViewSizes size_;
};

}  // namespace

std::string RandomProblem::Text() const {
  std::string text =
      fmt::format("seed {}: {}", seed, headwise::ToString(problem));
  if (args.query_lengths || args.key_lengths) text += ", ragged";
  if (args.query_offsets) text += ", offsets";
  if (args.sink_logits) text += ", sink logits";
  if (args.v.data == args.k.data) text += ", values are keys";
  if (args.gates) text += ", gates";
  if (args.replacement) text += " with μ";
  if (!active_heads.empty()) {
    text += fmt::format(", {} heads active", active_heads.size());
  }
  return text + " (HEADWISE_TEST_SEED=" + std::to_string(seed) +
         " HEADWISE_TEST_PROBLEMS=1 runs it alone)";
}

RandomProblem MakeRandomProblem(uint64_t seed,
                                const RandomProblemOptions& options) {
  return Maker(seed, options).Make();
}

int64_t TestProblems(int64_t plain) {
  if (const char* text = std::getenv("HEADWISE_TEST_PROBLEMS")) {
    return std::max(1L, std::atol(text));
  }
  return IsSanitized() ? std::max<int64_t>(1, plain / 10) : plain;
}

uint64_t TestSeed() {
  const char* text = std::getenv("HEADWISE_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}

}  // namespace headwise
