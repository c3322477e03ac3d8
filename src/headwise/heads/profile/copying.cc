// What heads add to logits, and eigenvalues of their value circuits. Door:
// copying.h.
#include "headwise/heads/profile/copying.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "headwise/head_ref.h"
#include "headwise/heads/profile/host_result.h"
#include "headwise/model/stream_sum.h"
#include "headwise/nn/head_weights.h"
#include "headwise/nn/release.h"
#include "headwise/observation.h"
#include "headwise/ops/embedding/embedding.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/runtime/on_host.h"
#include "headwise/runtime/session.h"
#include "headwise/tensor/eigenvalues.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

double CopyingScore(const Tensor& core) {
  Matrix matrix(core.shape(0), core.shape(1));
  std::copy_n(core.As<float>(), core.size(), matrix.values.begin());
  double real = 0, size = 0;
  for (const std::complex<double>& value : Eigenvalues(matrix)) {
    real += value.real();
    size += std::abs(value);
  }
  return size > 0 ? real / size : 0;
}

// Whether the model has a vocabulary head that is one matrix [vocabulary, d].
bool HasPlainVocabulary(const Model& model) {
  const VocabularyHead& head = model.head();
  return model.decoder() == nullptr && model.has_head() && !head.transform &&
         head.vocabulary.is_one_matrix() &&
         head.vocabulary.layout() == WeightLayout::kOutIn;
}

// Calls `use` with the ids of one piece of a vocabulary after another.
void ForPieces(int64_t size,
               const std::function<void(std::span<const int32_t>)>& use) {
  constexpr int64_t kPiece = 4096;
  for (int64_t begin = 0; begin < size; begin += kPiece) {
    std::vector<int32_t> ids(std::min(kPiece, size - begin));
    std::iota(ids.begin(), ids.end(), static_cast<int32_t>(begin));
    use(ids);
  }
}

// Contexts of the functions below are of the host, where the weights lie.

// W_U·W_E [d, d], summed over pieces of the vocabulary; empty without such a
// head.
Tensor ThroughVocabulary(Context& context, const Model& model) {
  if (!HasPlainVocabulary(model)) return {};
  const VocabularyHead& head = model.head();
  const ConstTensorView out = head.vocabulary.weight().value;
  const ConstTensorView in = model.stack().embeddings.tokens.value;
  const int64_t width = in.shape[1];
  Tensor sum(DType::kF32, {width, width});
  const auto add = [&](std::span<const int32_t> ids) {
    const int64_t count = static_cast<int64_t>(ids.size());
    Tensor u(DType::kF32, {count, width}), e(DType::kF32, {count, width});
    EmbeddingForward(context, {}, {out, ViewOf(ids), u.view()});
    EmbeddingForward(context, {}, {in, ViewOf(ids), e.view()});
    const Tensor piece = MatrixProduct(context, u, e, Operand::kTransposed);
    for (int64_t i = 0; i < sum.size(); ++i) {
      sum.As<float>()[i] += piece.As<float>()[i];
    }
  };
  ForPieces(std::min(in.shape[0], out.shape[0]), add);
  ReleaseWeight(head.vocabulary.weight());
  ReleaseWeight(model.stack().embeddings.tokens);
  return sum;
}

// The mean of the rows of table [size, d], to [d].
void MeanRow(Context& context, const ConstTensorView& table, float* to) {
  const int64_t width = table.shape[1];
  std::vector<double> sum(width, 0.0);
  ForPieces(table.shape[0], [&](std::span<const int32_t> ids) {
    Tensor rows(DType::kF32, {static_cast<int64_t>(ids.size()), width});
    EmbeddingForward(context, {}, {table, ViewOf(ids), rows.view()});
    for (int64_t i = 0; i < rows.size(); ++i) {
      sum[i % width] += rows.As<float>()[i];
    }
  });
  for (int64_t i = 0; i < width; ++i) {
    to[i] = static_cast<float>(sum[i] / static_cast<double>(table.shape[0]));
  }
}

// Directions of logits in the stream, [d, ids + 1]: columns of W_U behind the
// final norm's weights, and at the end that of the mean logit.
Tensor LogitDirections(Context& context, const Model& model,
                       std::span<const int32_t> ids) {
  const ConstTensorView out = model.head().vocabulary.weight().value;
  const int64_t width = out.shape[1], count = static_cast<int64_t>(ids.size());
  Tensor rows(DType::kF32, {count + 1, width});
  if (count > 0) {
    EmbeddingForward(
        context, {},
        {out, ViewOf(ids), View(rows.As<float>(), {count, width})});
  }
  MeanRow(context, out, rows.As<float>() + count * width);
  const Tensor gain = model.stack().final_norm.Gain(context);
  const float* weight = gain.As<float>();
  const bool centred = model.stack().final_norm.kind() == NormKind::kLayer;
  Tensor columns(DType::kF32, {width, count + 1});
  for (int64_t v = 0; v <= count; ++v) {
    const float* row = rows.As<float>() + v * width;
    double mean = 0;
    for (int64_t i = 0; i < width; ++i) {
      mean += weight[i] * row[i] / static_cast<double>(width);
    }
    for (int64_t i = 0; i < width; ++i) {
      columns.As<float>()[i * (count + 1) + v] =
          static_cast<float>(weight[i] * row[i] - (centred ? mean : 0.0));
    }
  }
  return columns;
}

// Whether a head's output reaches the logits through the final norm alone.
bool HasDirectPath(const Model& model) {
  return HasPlainVocabulary(model) && model.head().is_product() &&
         WhyNotSum(model.stack()).empty() &&
         static_cast<bool>(model.stack().final_norm) &&
         !model.stack().blocks.empty();
}

// Rows that see fewer tokens of the text do not count.
constexpr int64_t kLeastTokens = 8;

// Of each row the token that a head reads most, and what its output adds to
// that token's logit, before the final norm's scale, which is known last.
class CopyingHooks : public RunHooks {
 public:
  CopyingHooks(Context& context, const Model& model,
               std::span<const TokenWindow> windows, Profile& profile)
      : context_(context),
        host_(context),
        model_(model),
        profile_(profile),
        last_(model.stack().blocks.back().name() + ".output") {
    std::vector<int32_t> ids;
    std::map<int32_t, int64_t> columns;
    int64_t row = 0;
    for (const TokenWindow& window : windows) {
      Text& text = texts_.emplace_back();
      text.row = row;
      row += window.source.size();
      for (int64_t i = 0; i < window.source.size(); ++i) {
        const int32_t id = window.source.ids[i];
        // Heads rest on the first token: they do not read it.
        const bool read = i > 0 && window.source.added[i] == 0;
        if (read && columns.try_emplace(id, ids.size()).second) {
          ids.push_back(id);
        }
        text.columns.push_back(read ? columns[id] : -1);
      }
    }
    directions_ = LogitDirections(host_, model, ids);
  }

  bool Wants(std::string_view activation) const override {
    return activation == last_;
  }
  void Take(std::string_view, ConstTensorView value) override {
    const Temp normed(context_, value.type, {value.shape[0], value.shape[1]});
    NormSaved saved;
    model_.stack().final_norm.Forward(context_, value, normed.view(), &saved);
    scales_ = ToVector<float>(context_, saved.scale.view());
  }

  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override {
    const AttentionLayer& layer =
        *AttentionLayers(model_, site.kind)[site.layer];
    const int64_t first = profile_.IndexOf({site.kind, site.layer, 0});
    AttentionArgs scores = args;
    scores.observation = nullptr;
    std::vector<HostResult> largest;  // keys [rows, heads, 1] a text
    for (size_t b = 0; b < texts_.size(); ++b) {
      largest.push_back(Largest(problem, scores, static_cast<int64_t>(b)));
    }
    const HostFloats outputs(context_, args.out);
    const ConstTensorView& out = outputs.view();
    for (int64_t h = 0; h < problem.heads; ++h) {
      const Tensor to_logits =
          MatrixProduct(host_, WeightsOfHead(host_, layer, h).o, directions_);
      const float* z = out.As<float>() + h * out.stride[2];
      for (size_t b = 0; b < texts_.size(); ++b) {
        const int32_t* keys = largest[b].As<int32_t>() + h;
        AddText(b, {z, out.stride[1]}, to_logits, {keys, problem.heads},
                first + h);
      }
    }
  }

  // Once the run is over.
  void AddTo(Profile& profile) const {
    std::vector<Tally>& tallies = profile.Tallies("copying.run");
    std::map<std::pair<int64_t, size_t>, std::pair<double, double>> sums;
    for (const Reading& reading : readings_) {
      auto& [sum, rows] = sums[{reading.head, reading.text}];
      sum += reading.added * scales_[reading.row];
      rows += 1;
    }
    for (const auto& [place, sum] : sums) {
      if (!std::isfinite(sum.first)) continue;
      tallies[place.first].Add(sum.first, sum.second);
    }
  }

 private:
  // Where a window begins in the batch, and which direction each of its tokens
  // has; −1: it is not of the text, or is the first.
  struct Text {
    int64_t row = 0;
    std::vector<int64_t> columns;
  };
  struct Reading {
    int64_t head = 0;
    size_t text = 0;
    int64_t row = 0;
    double added = 0;
  };
  template <typename T>
  struct Rows {
    const T* data = nullptr;
    int64_t stride = 0;
  };

  HostResult Largest(const AttentionProblem& problem, const AttentionArgs& args,
                     int64_t text) const {
    const int64_t count = static_cast<int64_t>(texts_[text].columns.size());
    std::vector<RowRef> rows;
    for (int64_t i = 0; i < count; ++i) rows.push_back({text, i});
    HostResult keys(context_, DType::kI32, {count, problem.heads, 1});
    const Temp mass(context_, DType::kF32, {count, problem.heads, 1});
    AttentionTopK(context_, problem, args, rows, keys.view(), mass.view());
    keys.Fetch(context_);
    return keys;
  }

  // z: rows of a head's output; to_logits: [E, directions].
  void AddText(size_t b, const Rows<float>& z, const Tensor& to_logits,
               const Rows<int32_t>& keys, int64_t head) {
    const Text& text = texts_[b];
    const int64_t columns = to_logits.shape(1), dim = to_logits.shape(0);
    int64_t seen = 0;
    for (size_t i = 0; i < text.columns.size(); ++i) {
      if (text.columns[i] < 0 || ++seen <= kLeastTokens) continue;
      const int32_t key = keys.data[static_cast<int64_t>(i) * keys.stride];
      if (key < 0 || text.columns[key] < 0) continue;
      const int64_t row = text.row + static_cast<int64_t>(i);
      const float* out = z.data + row * z.stride;
      const float* to = to_logits.As<float>();
      double added = 0;
      for (int64_t e = 0; e < dim; ++e, to += columns) {
        added += static_cast<double>(out[e]) *
                 (to[text.columns[key]] - to[columns - 1]);
      }
      readings_.push_back({head, b, row, added});
    }
  }

  Context& context_;
  HostContext host_;
  const Model& model_;
  Profile& profile_;
  std::string last_;  // the activation that the final norm reads
  std::vector<Text> texts_;
  Tensor directions_;
  std::vector<Reading> readings_;
  std::vector<float> scales_;  // of the final norm, one a row of the batch
};

}  // namespace

void AddCopyingInRun(Context& context, const Model& model,
                     std::span<const TokenWindow> windows, Profile& profile) {
  if (!HasDirectPath(model) || windows.empty()) return;
  CopyingHooks hooks(context, model, windows, profile);
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;
  for (const TokenWindow& window : windows) {
    ids.insert(ids.end(), window.source.ids.begin(), window.source.ids.end());
    lengths.push_back(window.source.size());
  }
  Forward(context, model, {.ids = ids, .lengths = lengths, .hooks = &hooks});
  hooks.AddTo(profile);
}

void AddCopying(Context& context, const Model& model, Profile& profile) {
  const HostContext host(context);
  const Tensor vocabulary = ThroughVocabulary(host, model);
  for (size_t i = 0; i < profile.heads.size(); ++i) {
    const HeadRef& ref = profile.heads[i];
    const HeadWeights weights = WeightsOfHead(
        host, *AttentionLayers(model, ref.kind)[ref.layer], ref.head);
    // The value matrix of cross-attention reads another stream: what it would
    // copy there has no place in this one.
    if (ref.kind == AttentionKind::kCross) continue;
    const Tensor core = MatrixProduct(host, weights.o, weights.v);
    profile.Tallies("copying")[i].Add(CopyingScore(core), 1);
    if (vocabulary.size() == 0) continue;
    const Tensor logits = MatrixProduct(host, weights.o, vocabulary);
    profile.Tallies("copying.vocabulary")[i].Add(
        CopyingScore(MatrixProduct(host, logits, weights.v)), 1);
  }
}

}  // namespace headwise
