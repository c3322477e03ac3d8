// Scores through head_dim-sized roots: with V_1ᵀV_1 = LLᵀ and Q, K of the
// receiver, ‖V_1 O_1 Q Kᵀ‖ is ‖Lᵀ O_1 · Q M‖ where KᵀK = MMᵀ, so that one
// product of stacked heads gives all pairs of two layers and no d × d matrix is
// ever formed. Door: composition.h.
#include "headwise/heads/composition/composition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "headwise/base/stop.h"
#include "headwise/error.h"
#include "headwise/nn/head_weights.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/runtime/on_host.h"
#include "headwise/tensor/matrix.h"

namespace headwise {
namespace {

// L with L·Lᵀ = aᵀ·a (or a·aᵀ of a transposed), lower triangular; directions
// that vanish get zero columns.
Matrix Root(const Matrix& gram) {
  const int64_t n = gram.rows;
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, gram(i, i));
  Matrix root(n, n);
  for (int64_t c = 0; c < n; ++c) {
    double pivot = gram(c, c);
    for (int64_t i = 0; i < c; ++i) pivot -= root(c, i) * root(c, i);
    if (!(pivot > 1e-12 * largest)) continue;
    root(c, c) = std::sqrt(pivot);
    for (int64_t r = c + 1; r < n; ++r) {
      double sum = gram(r, c);
      for (int64_t i = 0; i < c; ++i) sum -= root(r, i) * root(c, i);
      root(r, c) = sum / root(c, c);
    }
  }
  return root;
}

// Heads of one layer, [heads · dim, d] below each other, and the squared norm
// of each.
struct Stacked {
  Tensor rows;
  int64_t dim = 0;
  std::vector<double> norms;

  Stacked() = default;
  Stacked(int64_t heads, int64_t head_dim, int64_t width)
      : rows(DType::kF32, {heads * head_dim, width}),
        dim(head_dim),
        norms(heads) {}

  // part: [dim, d]
  void Put(int64_t head, const Matrix& part) {
    float* to = rows.As<float>() + head * dim * part.columns;
    for (size_t i = 0; i < part.values.size(); ++i) {
      to[i] = static_cast<float>(part.values[i]);
      norms[head] += part.values[i] * part.values[i];
    }
  }
};

// The norm through which a layer reads the residual stream; null where norms
// stand behind the layers.
const Norm* ReadNorm(const Model& model, AttentionKind kind, int64_t layer,
                     bool memory) {
  if (memory) return &model.stack().final_norm;
  const Stack& stack =
      kind == AttentionKind::kSelf ? model.stack() : *model.decoder();
  const BlockStep* step = stack.blocks[layer].Find(
      kind == AttentionKind::kCross ? StepKind::kCross : StepKind::kAttention);
  return step == nullptr ? nullptr : &step->before;
}

// Throws Error(kUnsupported) where a norm changes what heads write on its way
// to the stream.
void RequirePlainWrites(const Stack& stack) {
  for (const Block& block : stack.blocks) {
    for (const BlockStep& step : block.steps()) {
      if (!step.after || step.kind == StepKind::kFeedForward) continue;
      throw Error(ErrorCode::kUnsupported,
                  {block.name() + "." + step.name(),
                   "heads that write to the stream as they are",
                   "a norm of what is added",
                   "weights alone do not say what later heads read"});
    }
  }
}

// w [d, D] as it acts on the stream before the norm.
Matrix Through(Context& context, const Norm* norm, const Tensor& w) {
  Matrix a = FromTensor(w);
  if (norm == nullptr || !*norm) return a;
  const Tensor weight = norm->Gain(context);
  for (int64_t c = 0; c < a.columns; ++c) {
    double mean = 0;
    for (int64_t r = 0; r < a.rows; ++r) {
      a(r, c) *= weight.As<float>()[r];
      mean += a(r, c) / static_cast<double>(a.rows);
    }
    if (norm->kind() != NormKind::kLayer) continue;
    for (int64_t r = 0; r < a.rows; ++r) a(r, c) -= mean;
  }
  return a;
}

// One layer's attention, ready for products.
struct Site {
  AttentionKind kind = AttentionKind::kSelf;
  int64_t layer = 0;
  size_t first_head = 0;  // in Composition::heads
  Stacked sends;
};

class Measure {
 public:
  Measure(Context& context, const Model& model)
      : context_(context), model_(model) {}

  Site MakeSite(AttentionKind kind, int64_t layer, size_t first_head) const {
    const AttentionLayer& attention = *AttentionLayers(model_, kind)[layer];
    const int64_t heads = attention.config().heads;
    Site site{kind, layer, first_head,
              Stacked(heads, attention.value_dim(), model_.config().width)};
    const Norm* norm =
        ReadNorm(model_, kind, layer, kind == AttentionKind::kCross);
    for (int64_t h = 0; h < heads; ++h) {
      const HeadWeights w = WeightsOfHead(context_, attention, h);
      const Matrix v = Through(context_, norm, w.v);
      site.sends.Put(h, Transpose(Root(Transpose(v) * v)) * FromTensor(w.o));
    }
    return site;
  }

  // What the heads of a site read as `input`: [heads · dim, d].
  Stacked Receive(const Site& site, HeadInput input) const {
    const AttentionLayer& attention =
        *AttentionLayers(model_, site.kind)[site.layer];
    const int64_t heads = attention.config().heads;
    const bool value = input == HeadInput::kValue;
    Stacked stacked(heads,
                    value ? attention.value_dim() : attention.config().head_dim,
                    model_.config().width);
    const bool cross = site.kind == AttentionKind::kCross;
    const Norm* queries = ReadNorm(model_, site.kind, site.layer, false);
    const Norm* keys = ReadNorm(model_, site.kind, site.layer, cross);
    for (int64_t h = 0; h < heads; ++h) {
      const HeadWeights w = WeightsOfHead(context_, attention, h);
      Matrix read, other;
      if (value) {
        read = Through(context_, keys, w.v);
        other = Transpose(FromTensor(w.o));
      } else {
        read = Through(context_, queries, w.q);
        other = Through(context_, keys, w.k);
        if (input == HeadInput::kKey) std::swap(read, other);
      }
      const Matrix root = Root(Transpose(other) * other);
      stacked.Put(h, Transpose(read * root));
    }
    return stacked;
  }

  // Edges of every sender of `from` to every receiver of `to`.
  void Pairs(const Site& from, const Site& to, const Stacked& receives,
             HeadInput input, std::vector<HeadEdge>& edges) const {
    const int64_t m = from.sends.rows.shape(0), n = receives.rows.shape(0);
    if (m == 0 || n == 0) return;
    Tensor product(DType::kF32, {m, n});
    MatmulProblem problem{.m = m, .n = n, .k = model_.config().width};
    problem.b = Operand::kTransposed;
    MatmulArgs args;
    args.a = from.sends.rows.view();
    args.b = receives.rows.view();
    args.c = product.view();
    Matmul(context_, problem, args);
    for (size_t a = 0; a < from.sends.norms.size(); ++a) {
      for (size_t b = 0; b < receives.norms.size(); ++b) {
        const double norms = from.sends.norms[a] * receives.norms[b];
        if (!(norms > 0)) continue;
        double sum = 0;
        for (int64_t r = 0; r < from.sends.dim; ++r) {
          const float* row =
              product.As<float>() +
              (static_cast<int64_t>(a) * from.sends.dim + r) * n +
              static_cast<int64_t>(b) * receives.dim;
          for (int64_t c = 0; c < receives.dim; ++c) sum += row[c] * row[c];
        }
        edges.push_back({from.first_head + a, to.first_head + b, input,
                         std::sqrt(sum / norms),
                         std::numeric_limits<double>::quiet_NaN()});
      }
    }
  }

 private:
  Context& context_;
  const Model& model_;
};

// Whether what `from` writes can reach this input of `to` without passing
// through it: the encoder's stream feeds its later layers and all cross keys
// and values; the decoder's feeds its later layers and cross queries.
bool Feeds(const Site& from, const Site& to, HeadInput input) {
  const bool from_encoder = from.kind == AttentionKind::kSelf;
  if (to.kind == AttentionKind::kSelf) {
    return from_encoder && from.layer < to.layer;
  }
  if (to.kind == AttentionKind::kCross) {
    if (input != HeadInput::kQuery) return from_encoder;
    if (from_encoder) return false;
    // Within a layer self-attention comes before cross-attention.
    return from.kind == AttentionKind::kDecoder ? from.layer <= to.layer
                                                : from.layer < to.layer;
  }
  return !from_encoder && from.layer < to.layer;
}

void SortByScore(Composition& composition) {
  std::stable_sort(
      composition.edges.begin(), composition.edges.end(),
      [](const HeadEdge& l, const HeadEdge& r) { return l.score > r.score; });
}

}  // namespace

const char* Name(HeadInput input) {
  switch (input) {
    case HeadInput::kQuery:
      return "q";
    case HeadInput::kKey:
      return "k";
    case HeadInput::kValue:
      return "v";
  }
  return "?";
}

Composition MeasureComposition(Context& context, const Model& model,
                               const CompositionJob& job) {
  RequirePlainWrites(model.stack());
  if (model.decoder() != nullptr) RequirePlainWrites(*model.decoder());
  Composition result;
  result.heads = AllHeads(model);
  result.baseline = 1 / std::sqrt(static_cast<double>(model.config().width));
  result.rotary = model.config().positions == Positions::kRotary;
  const HostContext host(context);  // weights alone: as the file holds them
  const Measure measure(host, model);
  std::vector<Site> sites;
  size_t first_head = 0;
  for (const AttentionKind kind :
       {AttentionKind::kSelf, AttentionKind::kDecoder, AttentionKind::kCross}) {
    const auto layers = AttentionLayers(model, kind);
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      sites.push_back(
          measure.MakeSite(kind, static_cast<int64_t>(layer), first_head));
      const AttentionLayerConfig& config = layers[layer]->config();
      for (int64_t h = 0; h < config.heads; ++h) {
        const int64_t share = config.heads / config.kv_heads;
        result.key_group.push_back(first_head +
                                   static_cast<size_t>(h / share * share));
      }
      result.query_norms |= NormsQueries(*layers[layer]);
      first_head += static_cast<size_t>(config.heads);
    }
  }
  for (size_t i = 0; i < sites.size(); ++i) {
    ThrowIfStopped(job.stop, "compose");
    for (const HeadInput input : kHeadInputs) {
      Stacked receives;
      for (const Site& from : sites) {
        if (!Feeds(from, sites[i], input)) continue;
        if (receives.norms.empty()) receives = measure.Receive(sites[i], input);
        measure.Pairs(from, sites[i], receives, input, result.edges);
      }
    }
    if (job.on_progress) {
      job.on_progress("compose", static_cast<double>(i + 1),
                      static_cast<double>(sites.size()));
    }
  }
  SortByScore(result);
  return result;
}

size_t Composition::Shown(size_t top) const {
  size_t count = std::min(top, edges.size());
  // Sorted by score, those that chance gives stand at the end.
  while (!by_effect && count > 0 && Over(edges[count - 1]) <= 0) --count;
  return count;
}

std::vector<size_t> Composition::Sharing(size_t head) const {
  std::vector<size_t> sharing;
  for (size_t other = 0; other < heads.size(); ++other) {
    if (key_group[other] == key_group[head]) sharing.push_back(other);
  }
  return sharing;
}

std::vector<EdgeRow> Composition::Rows(size_t top) const {
  std::vector<EdgeRow> rows;
  std::set<std::tuple<size_t, HeadInput, size_t>> listed;
  const size_t count = Shown(edges.size());
  for (size_t i = 0; i < count && rows.size() < top; ++i) {
    const HeadEdge& edge = edges[i];
    if (edge.input == HeadInput::kQuery) {
      rows.push_back({edge, {edge.receiver}});
      continue;
    }
    const size_t group = key_group[edge.receiver];
    if (!listed.insert({edge.sender, edge.input, group}).second) continue;
    rows.push_back({edge, Sharing(edge.receiver)});
  }
  return rows;
}

void SortByEffect(Composition& composition) {
  composition.by_effect = true;
  std::stable_sort(
      composition.edges.begin(), composition.edges.end(),
      [](const HeadEdge& l, const HeadEdge& r) { return l.effect > r.effect; });
}

}  // namespace headwise
