// Runs the windows and puts the comparisons together. Door: similarity.h.
#include "headwise/heads/similarity/similarity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/dist/pack.h"
#include "headwise/error.h"
#include "headwise/heads/similarity/cluster.h"
#include "headwise/heads/similarity/content.h"
#include "headwise/heads/similarity/output.h"
#include "headwise/heads/similarity/pattern.h"
#include "headwise/heads/similarity/record.h"
#include "headwise/runtime/on_host.h"
#include "headwise/runtime/session.h"
#include "headwise/tensor/matrix.h"

namespace headwise {
namespace {

constexpr size_t kMostClosest = 50;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// `count` of `from`, evenly spread; all where there are no more.
std::vector<int64_t> Spread(const std::vector<int64_t>& from, int64_t count) {
  const auto size = static_cast<int64_t>(from.size());
  if (size <= count) return from;
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < count; ++i) {
    chosen.push_back(from[(2 * i + 1) * size / (2 * count)]);
  }
  return chosen;
}

// Rows of the side that asks: of the text, and seeing enough keys in every
// layer. `sampled` and `outputs` of them at most.
CountedRows CountRows(const TokenRow& queries, const TokenRow& keys,
                      std::span<const AttentionLayer* const> layers,
                      const SimilarityJob& job, int64_t sampled,
                      int64_t outputs) {
  CountedRows rows;
  std::vector<int64_t> counted;
  for (int64_t i = 0; i < queries.size(); ++i) {
    bool counts = queries.added[i] == 0;
    for (const AttentionLayer* layer : layers) {
      const AttentionMask& mask = layer->config().mask;
      int64_t last = keys.size() - 1, first = 0;
      if (mask.after != kUnlimited) last = std::min(last, i + mask.after);
      if (mask.before != kUnlimited) first = std::max(first, i - mask.before);
      counts &= last - first + 1 >= job.min_visible;
    }
    rows.weights.push_back(counts ? 1.0f : 0.0f);
    if (counts) counted.push_back(i);
  }
  rows.sampled = Spread(counted, sampled);
  rows.outputs = Spread(counted, outputs);
  return rows;
}

// Outputs of each head over all windows, appended window by window.
class OutputSamples {
 public:
  explicit OutputSamples(const std::vector<HeadRef>& heads)
      : heads_(heads), values_(heads.size()), dims_(heads.size()) {}

  void Add(const WindowRecord& record) {
    for (size_t i = 0; i < heads_.size(); ++i) {
      const Tensor& z = record.outputs(heads_[i].kind, heads_[i].layer);
      const int64_t heads = z.shape(1), dim = z.shape(2);
      dims_[i] = dim;
      for (int64_t row = 0; row < z.shape(0); ++row) {
        const float* from =
            z.As<float>() + (row * heads + heads_[i].head) * dim;
        values_[i].insert(values_[i].end(), from, from + dim);
      }
    }
  }

  // As a message; what was packed is appended.
  void Pack(dist::Packer& to) const {
    for (size_t i = 0; i < heads_.size(); ++i) {
      to.Put(dims_[i]);
      to.Put(values_[i]);
    }
  }
  void AppendPacked(dist::Unpacker& from) {
    for (size_t i = 0; i < heads_.size(); ++i) {
      dims_[i] = from.Get<int64_t>();
      const std::vector<float> more = from.GetVector<float>();
      values_[i].insert(values_[i].end(), more.begin(), more.end());
    }
  }

  // [samples, E] of head i.
  Tensor Of(size_t i) const {
    const auto size = static_cast<int64_t>(values_[i].size());
    Tensor z(DType::kF32, {dims_[i] > 0 ? size / dims_[i] : 0, dims_[i]});
    std::copy(values_[i].begin(), values_[i].end(), z.As<float>());
    return z;
  }

 private:
  const std::vector<HeadRef>& heads_;
  std::vector<std::vector<float>> values_;
  std::vector<int64_t> dims_;
};

// Indices of heads by kind: those of one kind read and write one stream.
std::map<AttentionKind, std::vector<size_t>> ByKind(
    const std::vector<HeadRef>& heads) {
  std::map<AttentionKind, std::vector<size_t>> kinds;
  for (size_t i = 0; i < heads.size(); ++i) kinds[heads[i].kind].push_back(i);
  return kinds;
}

Matrix AllNan(size_t n) {
  Matrix a(static_cast<int64_t>(n), static_cast<int64_t>(n));
  std::fill(a.values.begin(), a.values.end(), kNan);
  return a;
}

void Put(const Matrix& part, const std::vector<size_t>& at, Matrix& whole) {
  for (size_t a = 0; a < at.size(); ++a) {
    for (size_t b = 0; b < at.size(); ++b) {
      whole(static_cast<int64_t>(at[a]), static_cast<int64_t>(at[b])) =
          part(static_cast<int64_t>(a), static_cast<int64_t>(b));
    }
  }
}

// [heads, heads]
struct Likeness {
  Matrix bhattacharyya, jsd, cka, ov_read, ov_write;
};

// Of weights that lie on the host, as `context` does.
void CompareContent(Context& context, const Model& model,
                    const std::vector<HeadRef>& all, Likeness& result) {
  std::vector<ContentSpaces> spaces(all.size());
  // A few heads at a time: the weights of all as f32 may be large.
  const size_t most = 4 * static_cast<size_t>(context.threads());
  for (size_t begin = 0; begin < spaces.size(); begin += most) {
    std::vector<HeadWeights> weights;
    for (size_t i = begin; i < std::min(spaces.size(), begin + most); ++i) {
      const HeadRef& head = all[i];
      weights.push_back(WeightsOfHead(
          context, *AttentionLayers(model, head.kind)[head.layer], head.head));
    }
    context.pool().ParallelFor(
        static_cast<int64_t>(weights.size()),
        [&](int64_t i, int) { spaces[begin + i] = SpacesOf(weights[i]); });
  }
  for (const auto& [kind, heads] : ByKind(all)) {
    std::vector<Matrix> read, write;
    for (const size_t i : heads) {
      read.push_back(std::move(spaces[i].read));
      write.push_back(std::move(spaces[i].write));
    }
    Put(MeanSquaredCosines(context, read), heads, result.ov_read);
    Put(MeanSquaredCosines(context, write), heads, result.ov_write);
  }
}

// √(1 − Bhattacharyya); heads that cannot be compared are as far as can be.
Matrix Hellinger(const Matrix& bhattacharyya) {
  Matrix distance(bhattacharyya.rows, bhattacharyya.columns);
  for (size_t i = 0; i < distance.values.size(); ++i) {
    const double value = bhattacharyya.values[i];
    distance.values[i] =
        std::isnan(value) ? 1 : std::sqrt(std::clamp(1 - value, 0.0, 1.0));
  }
  for (int64_t i = 0; i < distance.rows; ++i) distance(i, i) = 0;
  return distance;
}

void FindPairs(const SimilarityJob& job, const Likeness& alike,
               HeadSimilarity& result) {
  std::vector<HeadPair> pairs;
  for (size_t b = 0; b < result.heads.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      const auto i = static_cast<int64_t>(a), j = static_cast<int64_t>(b);
      if (std::isnan(alike.jsd(i, j))) continue;
      pairs.push_back({a, b, alike.bhattacharyya(i, j), alike.jsd(i, j),
                       alike.cka(i, j), alike.ov_read(i, j),
                       alike.ov_write(i, j)});
    }
  }
  std::stable_sort(
      pairs.begin(), pairs.end(),
      [](const HeadPair& l, const HeadPair& r) { return l.jsd < r.jsd; });
  for (const HeadPair& pair : pairs) {
    if (pair.jsd < job.twin) result.twins.push_back(pair);
  }
  pairs.resize(std::min(pairs.size(), kMostClosest));
  result.closest = std::move(pairs);
}

class Runner {
 public:
  Runner(Context& context, const Model& model, const SimilarityJob& job,
         size_t windows)
      : context_(context), model_(model), job_(job) {
    auto share = [&](int64_t wanted) {
      const auto n = static_cast<int64_t>(windows);
      return std::max<int64_t>(1, wanted / n + (wanted % n != 0 ? 1 : 0));
    };
    rows_ = share(job.rows);
    samples_ = share(job.samples);
  }

  // Before anything runs, and on every rank alike.
  void RequireRows(std::span<const TokenWindow> windows) const {
    int64_t tokens = 0;
    for (const TokenWindow& window : windows) {
      for (const auto& [kind, rows] : RowsOf(window)) {
        if (rows.count() > 0) return;
      }
      tokens += window.source.size() + window.target.size();
    }
    throw Error(ErrorCode::kInvalidArgument,
                {"similar",
                 "texts in which a token sees at least " +
                     std::to_string(job_.min_visible) + " keys",
                 std::to_string(tokens) + " tokens in all",
                 "give longer texts or a lower `min_visible`"});
  }

  // The window's record, for the sums.
  WindowRecord Run(const TokenWindow& window) const {
    WindowRecord record(context_, RowsOf(window));
    const std::vector<int64_t> lengths = {window.source.size()};
    const std::vector<int64_t> targets = {window.target.size()};
    Forward(context_, model_,
            {.ids = window.source.ids,
             .lengths = lengths,
             .decoder_ids = window.target.ids,
             .decoder_lengths = targets,
             .hooks = &record});
    return record;
  }

 private:
  std::map<AttentionKind, CountedRows> RowsOf(const TokenWindow& window) const {
    std::map<AttentionKind, CountedRows> rows;
    rows[AttentionKind::kSelf] =
        Count(window.source, window.source, AttentionKind::kSelf);
    if (model_.decoder() != nullptr) {
      rows[AttentionKind::kDecoder] =
          Count(window.target, window.target, AttentionKind::kDecoder);
      rows[AttentionKind::kCross] =
          Count(window.target, window.source, AttentionKind::kCross);
    }
    return rows;
  }
  CountedRows Count(const TokenRow& queries, const TokenRow& keys,
                    AttentionKind kind) const {
    return CountRows(queries, keys, AttentionLayers(model_, kind), job_, rows_,
                     samples_);
  }

  Context& context_;
  const Model& model_;
  const SimilarityJob& job_;
  int64_t rows_;
  int64_t samples_;
};

// All windows' patterns and outputs.
struct AllWindows {
  AllWindows(const Model& model, const std::vector<HeadRef>& heads)
      : patterns(model), outputs(heads) {}

  std::string Packed() const {
    dist::Packer to;
    patterns.Pack(to);
    outputs.Pack(to);
    return to.Take();
  }
  void Append(std::string_view packed) {
    dist::Unpacker from(packed);
    patterns.MergePacked(from);
    outputs.AppendPacked(from);
  }

  PatternSums patterns;
  OutputSamples outputs;
};

// Each window from zero, and windows in order.
void RunWindows(Context& context, const Model& model,
                std::span<const TokenWindow> windows, const SimilarityJob& job,
                const PassOptions& options, AllWindows& all,
                const std::vector<HeadRef>& heads) {
  const Runner runner(context, model, job, windows.size());
  runner.RequireRows(windows);
  PassWork work;
  work.stage = "similar";
  work.sizes.assign(windows.size(), 1);
  work.add = [&](std::string_view message) { all.Append(message); };
  work.unpack = work.add;
  work.pack = [&] { return all.Packed(); };
  TextPass(options, std::move(work)).Run([&](size_t i, std::string_view) {
    const WindowRecord record = runner.Run(windows[i]);
    AllWindows own(model, heads);
    own.patterns.Add(context, record);
    own.outputs.Add(record);
    return own.Packed();
  });
}

}  // namespace

HeadSimilarity CompareHeads(Context& context, const Model& model,
                            std::span<const TokenWindow> windows,
                            const SimilarityJob& job,
                            const PassOptions& options) {
  HeadSimilarity result;
  result.heads = AllHeads(model);
  AllWindows all(model, result.heads);
  const PatternSums& patterns = all.patterns;
  const OutputSamples& outputs = all.outputs;
  RunWindows(context, model, windows, job, options, all, result.heads);
  if (options.group != nullptr && !options.group->is_first()) return result;
  for (const TokenWindow& window : windows) {
    result.tokens += window.source.size() + window.target.size();
  }
  result.rows = patterns.rows();
  result.sampled_rows = patterns.sampled_rows();
  Likeness alike;
  alike.bhattacharyya = patterns.Bhattacharyya();
  alike.jsd = patterns.JensenShannon();
  alike.cka = AllNan(result.heads.size());
  alike.ov_read = alike.ov_write = alike.cka;
  const HostContext host(context);
  for (const auto& [kind, heads] : ByKind(result.heads)) {
    std::vector<Tensor> z;
    for (const size_t i : heads) z.push_back(outputs.Of(i));
    result.samples = std::max(result.samples, z[0].shape(0));
    Put(LinearCka(host, z), heads, alike.cka);
  }
  CompareContent(host, model, result.heads, alike);
  const Matrix distance = Hellinger(alike.bhattacharyya);
  Clustering clusters = AverageLinkage(distance, job.cut);
  result.group = std::move(clusters.group);
  result.order = std::move(clusters.order);
  result.map = AsTensor(ClassicalScaling(distance));
  FindPairs(job, alike, result);
  result.bhattacharyya = AsTensor(alike.bhattacharyya);
  result.jsd = AsTensor(alike.jsd);
  result.cka = AsTensor(alike.cka);
  result.ov_read = AsTensor(alike.ov_read);
  result.ov_write = AsTensor(alike.ov_write);
  return result;
}

}  // namespace headwise
