// Eigenvalues of heads' value circuits. Door: copying.h.
#include "headwise/heads/profile/copying.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "headwise/nn/head_weights.h"
#include "headwise/nn/release.h"
#include "headwise/observation.h"
#include "headwise/ops/embedding/embedding.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/runtime/session.h"
#include "headwise/tensor/eigenvalues.h"

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
         head.vocabulary.parts().size() == 1 &&
         head.vocabulary.layout() == WeightLayout::kOutIn;
}

// W_U·W_E [d, d], summed over pieces of the vocabulary; empty without such a
// head.
Tensor ThroughVocabulary(Context& context, const Model& model) {
  if (!HasPlainVocabulary(model)) return {};
  const VocabularyHead& head = model.head();
  const ConstTensorView out = head.vocabulary.parts()[0].weight.value;
  const ConstTensorView in = model.stack().embeddings.tokens.value;
  const int64_t width = in.shape[1];
  const int64_t size = std::min(in.shape[0], out.shape[0]);
  constexpr int64_t kPiece = 4096;
  Tensor sum(DType::kF32, {width, width});
  for (int64_t begin = 0; begin < size; begin += kPiece) {
    const int64_t count = std::min(kPiece, size - begin);
    std::vector<int32_t> ids(count);
    std::iota(ids.begin(), ids.end(), static_cast<int32_t>(begin));
    Tensor u(DType::kF32, {count, width}), e(DType::kF32, {count, width});
    EmbeddingForward(context, out, ids, u.view());
    EmbeddingForward(context, in, ids, e.view());
    const Tensor piece = MatrixProduct(context, u, e, Operand::kTransposed);
    for (int64_t i = 0; i < sum.size(); ++i) {
      sum.As<float>()[i] += piece.As<float>()[i];
    }
  }
  ReleaseWeight(head.vocabulary.parts()[0].weight);
  ReleaseWeight(model.stack().embeddings.tokens);
  return sum;
}

// Directions of logits in the stream, [d, ids]: columns of W_U behind the final
// norm's weights. The norm's own length changes no share of a row.
Tensor LogitDirections(Context& context, const Model& model,
                       std::span<const int32_t> ids) {
  const ConstTensorView out = model.head().vocabulary.parts()[0].weight.value;
  const int64_t width = out.shape[1], count = static_cast<int64_t>(ids.size());
  Tensor rows(DType::kF32, {count, width});
  EmbeddingForward(context, out, ids, rows.view());
  const Norm& norm = model.stack().final_norm;
  Tensor columns(DType::kF32, {width, count});
  for (int64_t v = 0; v < count; ++v) {
    const float* row = rows.As<float>() + v * width;
    double mean = 0;
    for (int64_t i = 0; i < width; ++i) {
      const float weight = norm ? norm.weight()[i] : 1;
      columns.As<float>()[i * count + v] = weight * row[i];
      mean += weight * row[i] / static_cast<double>(width);
    }
    if (!norm || model.config().norm != NormKind::kLayer) continue;
    for (int64_t i = 0; i < width; ++i) {
      columns.As<float>()[i * count + v] -= static_cast<float>(mean);
    }
  }
  return columns;
}

// Rows that see fewer tokens of the text do not count.
constexpr int64_t kLeastTokens = 8;

class LogitCopyingHooks : public RunHooks {
 public:
  LogitCopyingHooks(Context& context, const Model& model,
                    std::span<const TokenWindow> windows, Profile& profile)
      : context_(context),
        model_(model),
        tallies_(profile.Tallies("copying.logits")),
        profile_(profile) {
    std::vector<int32_t> ids;
    int64_t row = 0;
    for (const TokenWindow& window : windows) {
      Text& text = texts_.emplace_back();
      text.row = row;
      text.column = static_cast<int64_t>(ids.size());
      row += window.source.size();
      for (int64_t i = 0; i < window.source.size(); ++i) {
        if (window.source.added[i] != 0) continue;
        const int32_t id = window.source.ids[i];
        const auto begin = ids.begin() + text.column;
        const auto found = std::find(begin, ids.end(), id);
        text.positions.push_back(i);
        text.words.push_back(found - begin);
        if (found == ids.end()) ids.push_back(id);
      }
      text.distinct = static_cast<int64_t>(ids.size()) - text.column;
    }
    directions_ = LogitDirections(context, model, ids);
  }

  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override {
    const AttentionLayer& layer =
        *AttentionLayers(model_, site.kind)[site.layer];
    const int64_t first = profile_.IndexOf({site.kind, site.layer, 0});
    std::vector<Tensor> to_logits;  // [E, ids] a head
    for (int64_t h = 0; h < problem.heads; ++h) {
      to_logits.push_back(
          MatrixProduct(context_, WeightsOfHead(layer, h).o, directions_));
    }
    AttentionArgs scores = args;
    scores.observation = nullptr;
    const int64_t heads = problem.heads, keys = problem.key_len;
    for (size_t b = 0; b < texts_.size(); ++b) {
      const Text& text = texts_[b];
      std::vector<RowRef> rows;
      for (const int64_t i : text.positions) {
        rows.push_back({static_cast<int64_t>(b), i});
      }
      const int64_t count = static_cast<int64_t>(rows.size());
      Tensor p(DType::kF32, {count, heads, keys});
      AttentionRows(context_, problem, scores, rows, p.view());
      for (int64_t h = 0; h < heads; ++h) {
        const float* z = args.out.As<float>() + text.row * args.out.stride[1] +
                         h * args.out.stride[2];
        AddText(text, {z, args.out.stride[1]}, to_logits[h],
                {p.As<float>() + h * keys, heads * keys}, tallies_[first + h]);
      }
    }
  }

 private:
  // Tokens of a window that are of the text, and which of its distinct tokens
  // each one is.
  struct Text {
    int64_t row = 0;     // of the batch, where the window begins
    int64_t column = 0;  // of the directions, where its tokens begin
    int64_t distinct = 0;
    std::vector<int64_t> positions;
    std::vector<int64_t> words;
  };
  struct Rows {
    const float* data = nullptr;
    int64_t stride = 0;
  };

  // Shares of one head's rows, weighted by what it gives to the text. z: rows
  // of its output; to_logits: [E, ids]; p: a row for each token of the text.
  static void AddText(const Text& text, const Rows& z, const Tensor& to_logits,
                      const Rows& p, Tally& tally) {
    const int64_t columns = to_logits.shape(1), dim = to_logits.shape(0);
    std::vector<double> raised(text.distinct);
    double sum = 0, weight = 0;
    for (size_t q = kLeastTokens; q < text.positions.size(); ++q) {
      const float* out = z.data + text.positions[q] * z.stride;
      double mean = 0;
      for (int64_t v = 0; v < text.distinct; ++v) {
        const float* to = to_logits.As<float>() + text.column + v;
        raised[v] = 0;
        for (int64_t e = 0; e < dim; ++e) {
          raised[v] += static_cast<double>(out[e]) * to[e * columns];
        }
        mean += raised[v] / static_cast<double>(text.distinct);
      }
      double total = 0;
      for (double& one : raised) total += one = std::max(one - mean, 0.0);
      if (!(total > 0)) continue;
      const float* mass = p.data + static_cast<int64_t>(q) * p.stride;
      for (size_t k = 0; k < text.positions.size(); ++k) {
        const double here = mass[text.positions[k]];
        sum += here * raised[text.words[k]] / total;
        weight += here;
      }
    }
    const double chance = 1 / static_cast<double>(text.distinct);
    tally.Add((sum - chance * weight) / (1 - chance), weight);
  }

  Context& context_;
  const Model& model_;
  std::vector<Tally>& tallies_;
  Profile& profile_;
  std::vector<Text> texts_;
  Tensor directions_;  // [d, distinct tokens of all windows]
};

}  // namespace

void AddLogitCopying(Context& context, const Model& model,
                     std::span<const TokenWindow> windows, Profile& profile) {
  if (!HasPlainVocabulary(model) || windows.empty()) return;
  LogitCopyingHooks hooks(context, model, windows, profile);
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;
  for (const TokenWindow& window : windows) {
    ids.insert(ids.end(), window.source.ids.begin(), window.source.ids.end());
    lengths.push_back(window.source.size());
  }
  Forward(context, model, {.ids = ids, .lengths = lengths, .hooks = &hooks});
}

void AddCopying(Context& context, const Model& model, Profile& profile) {
  const Tensor vocabulary = ThroughVocabulary(context, model);
  for (size_t i = 0; i < profile.heads.size(); ++i) {
    const HeadRef& ref = profile.heads[i];
    const HeadWeights weights =
        WeightsOfHead(*AttentionLayers(model, ref.kind)[ref.layer], ref.head);
    // The value matrix of cross-attention reads another stream: what it would
    // copy there has no place in this one.
    if (ref.kind == AttentionKind::kCross) continue;
    const Tensor core = MatrixProduct(context, weights.o, weights.v);
    profile.Tallies("copying")[i].Add(CopyingScore(core), 1);
    if (vocabulary.size() == 0) continue;
    const Tensor logits = MatrixProduct(context, weights.o, vocabulary);
    profile.Tallies("copying.vocabulary")[i].Add(
        CopyingScore(MatrixProduct(context, logits, weights.v)), 1);
  }
}

}  // namespace headwise
