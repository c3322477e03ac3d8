// Normal equations with ridge. Door: refit.h.
//
// With z = (k, r), the outputs of kept and removed heads, y = W_k k + W_r r +
// b. The best W_k + Δ has Δ = (C_kk + λ)⁻¹ C_kr W_r: what the kept heads tell
// of the removed ones. The ridge pulls towards the old weights, so that λ → ∞
// is folding. C is the covariance, or the second moment where no bias may
// absorb the means.
#include "headwise/heads/pruning/refit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "headwise/error.h"
#include "headwise/heads/pruning/layer_output.h"
#include "headwise/tensor/matrix.h"
#include "headwise/tensor/solve.h"

namespace headwise {
namespace {

// Over the mean variance of the inputs.
constexpr std::array<double, 7> kRidges = {1e-5, 1e-4, 1e-3, 1e-2, .1, 1, 10};
// Bytes of sums that are held at once: layers beyond wait for another pass.
constexpr int64_t kMostGramBytes = int64_t{1} << 30;

// Whether the means are another matter, of the bias.
enum class Means : uint8_t { kApart, kWithin };

double Covariance(const OutputMoments& m, int64_t i, int64_t j, Means means) {
  return m.product(i, j) - (means == Means::kApart ? m.mean(i) * m.mean(j) : 0);
}

struct Fit {
  Matrix change;             // Δ, [kept columns, out]
  std::vector<double> bias;  // added to the old one, [out]
};

Fit Solve(const LayerOutput& layer, const OutputMoments& m, double ridge,
          Means means) {
  const auto& kept = layer.kept;
  const int64_t n = std::ssize(kept), out = layer.weight.columns;
  Matrix a(n, n);
  Fit fit = {Matrix(n, out), std::vector<double>(out)};
  double trace = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      a(i, j) = Covariance(m, kept[i], kept[j], means);
    }
    trace += a(i, i);
    for (const int64_t r : layer.removed) {
      const double c = Covariance(m, kept[i], r, means);
      for (int64_t o = 0; o < out; ++o) {
        fit.change(i, o) += c * layer.weight(r, o);
      }
    }
  }
  const double added = ridge * trace / static_cast<double>(n) +
                       std::numeric_limits<float>::min();
  for (int64_t i = 0; i < n; ++i) a(i, i) += added;
  SolvePositive(a, fit.change);
  if (means == Means::kWithin) return fit;
  for (int64_t o = 0; o < out; ++o) {
    for (const int64_t r : layer.removed) {
      fit.bias[o] += m.mean(r) * layer.weight(r, o);
    }
    for (int64_t i = 0; i < n; ++i) {
      fit.bias[o] -= m.mean(kept[i]) * fit.change(i, o);
    }
  }
  return fit;
}

// Of nothing done, and of means folded: Δ = 0.
Fit Unfitted(const LayerOutput& layer, const OutputMoments* means) {
  const int64_t out = layer.weight.columns;
  Fit fit = {Matrix(std::ssize(layer.kept), out), std::vector<double>(out)};
  if (means == nullptr) return fit;
  for (const int64_t r : layer.removed) {
    for (int64_t o = 0; o < out; ++o) {
      fit.bias[o] += means->mean(r) * layer.weight(r, o);
    }
  }
  return fit;
}

// E |a z − c|² with a [columns of z, out], summed over the outputs.
double MeanSquare(const OutputMoments& m, const Matrix& a,
                  const std::vector<double>& c) {
  double total = 0;
  std::vector<double> row(a.columns);
  for (int64_t i = 0; i < a.rows; ++i) {
    std::fill(row.begin(), row.end(), 0.0);
    for (int64_t j = 0; j < a.rows; ++j) {
      const double p = m.product(i, j);
      const double* from = a.values.data() + j * a.columns;
      for (int64_t o = 0; o < a.columns; ++o) row[o] += p * from[o];
    }
    for (int64_t o = 0; o < a.columns; ++o) {
      total += a(i, o) * (row[o] - 2 * m.mean(i) * c[o]);
    }
  }
  for (const double value : c) total += value * value;
  return total;
}

double Variance(const LayerOutput& layer, const OutputMoments& m) {
  std::vector<double> mean(layer.weight.columns);
  for (int64_t i = 0; i < layer.weight.rows; ++i) {
    for (int64_t o = 0; o < layer.weight.columns; ++o) {
      mean[o] += m.mean(i) * layer.weight(i, o);
    }
  }
  return MeanSquare(m, layer.weight, mean);
}

// What the fit leaves of the original's output: W_r r − Δ k − bias.
double Error2(const LayerOutput& layer, const OutputMoments& m,
              const Fit& fit) {
  Matrix a(layer.weight.rows, layer.weight.columns);
  for (const int64_t r : layer.removed) {
    for (int64_t o = 0; o < a.columns; ++o) a(r, o) = layer.weight(r, o);
  }
  for (size_t i = 0; i < layer.kept.size(); ++i) {
    for (int64_t o = 0; o < a.columns; ++o) {
      a(layer.kept[i], o) = -fit.change(static_cast<int64_t>(i), o);
    }
  }
  return MeanSquare(m, a, fit.bias);
}

// What one layer is fitted, its ridge chosen, and judged by.
struct Sums {
  OutputMoments fit, choose, judge;
};

LayerError RefitLayer(const LayerOutput& layer, Sums& sums, Means means,
                      ChangedTensors& changed) {
  LayerError error;
  error.site = layer.site;
  const double variance = Variance(layer, sums.judge);
  std::vector<double> left;
  for (const double ridge : kRidges) {
    left.push_back(
        Error2(layer, sums.choose, Solve(layer, sums.fit, ridge, means)));
  }
  error.ridge = ChooseRidge(
      kRidges, left, static_cast<double>(layer.kept.size()) / sums.fit.rows());
  sums.fit.Add(sums.choose);
  const Fit fit = Solve(layer, sums.fit, error.ridge, means);
  const auto relative = [&](const Fit& of) {
    const double left = Error2(layer, sums.judge, of);
    return variance > 0 ? left / variance : 0;
  };
  error.none = relative(Unfitted(layer, nullptr));
  error.fold = relative(Unfitted(layer, &sums.fit));
  error.fitted = relative(fit);
  StoreOutput(layer, fit.change, fit.bias, changed);
  return error;
}

std::vector<std::set<std::string>> Passes(
    const std::vector<LayerOutput>& layers) {
  std::vector<std::set<std::string>> passes;
  int64_t bytes = kMostGramBytes;
  for (const LayerOutput& layer : layers) {
    const int64_t mine = 3 * layer.weight.rows * layer.weight.rows *
                         static_cast<int64_t>(sizeof(double));
    if (bytes + mine > kMostGramBytes) {
      passes.emplace_back();
      bytes = 0;
    }
    bytes += mine;
    passes.back().insert(layer.site);
    passes.back().insert(layer.others.begin(), layer.others.end());
  }
  return passes;
}

// A matrix that layers share is fitted to the rows of all of them.
OutputMoments OfAllUses(const LayerOutput& layer, SiteMoments& moments) {
  OutputMoments all = std::move(moments.at(layer.site));
  for (const std::string& site : layer.others) all.Add(moments.at(site));
  return all;
}

// Tokens [begin, end) of an example's own between its frame's.
TextExample PieceOf(const TextExample& example, size_t before, size_t begin,
                    size_t end, size_t after) {
  TextExample piece;
  const auto add = [&](size_t from, size_t to) {
    piece.ids.insert(piece.ids.end(),
                     example.ids.begin() + static_cast<ptrdiff_t>(from),
                     example.ids.begin() + static_cast<ptrdiff_t>(to));
    piece.added.insert(piece.added.end(),
                       example.added.begin() + static_cast<ptrdiff_t>(from),
                       example.added.begin() + static_cast<ptrdiff_t>(to));
  };
  add(0, before);
  add(begin, end);
  add(after, example.ids.size());
  return piece;
}

}  // namespace

double ChooseRidge(std::span<const double> ridges,
                   std::span<const double> errors, double slack) {
  const double most = std::ranges::min(errors) * (1 + slack);
  double chosen = ridges[std::ranges::min_element(errors) - errors.begin()];
  for (size_t i = 0; i < ridges.size(); ++i) {
    if (errors[i] <= most) chosen = std::max(chosen, ridges[i]);
  }
  return chosen;
}

std::vector<TextExample> OfMixedLengths(std::span<const TextExample> examples) {
  constexpr std::array<size_t, 3> kLengths = {8, 16, 32};
  constexpr size_t kShortest = 4;  // tokens of a piece
  std::vector<TextExample> mixed;
  for (size_t i = 0; i < examples.size(); ++i) {
    TextExample example = examples[i];
    if (i % 2 == 0) {
      mixed.push_back(std::move(example));
      continue;
    }
    example.added.resize(example.ids.size(), 0);
    size_t before = 0, after = example.ids.size();
    while (before < after && example.added[before] != 0) ++before;
    while (after > before && example.added[after - 1] != 0) --after;
    for (size_t begin = before, n = i / 2; begin + kShortest <= after; ++n) {
      const size_t end = std::min(begin + kLengths[n % kLengths.size()], after);
      mixed.push_back(PieceOf(example, before, begin, end, after));
      begin = end;
    }
  }
  return mixed;
}

std::vector<LayerError> RefitOutputs(Context& context, const Model& model,
                                     std::span<const HeadRef> removed,
                                     const RefitText& text, NewBias bias,
                                     const CorpusOptions& options,
                                     ChangedTensors& changed) {
  if (text.fit.size() < 2) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"least squares",
         "at least two windows to fit by: some choose the ridge",
         std::to_string(text.fit.size()), "more text, or a smaller --context"});
  }
  std::vector<LayerOutput> layers = OutputsOf(context, model, removed);
  std::erase_if(layers,
                [](const LayerOutput& layer) { return layer.kept.empty(); });
  const size_t last = std::max<size_t>(1, text.fit.size() / 4);
  const auto fit = text.fit.first(text.fit.size() - last);
  std::vector<LayerError> errors;
  for (const std::set<std::string>& sites : Passes(layers)) {
    const auto gather = [&](std::span<const TextExample> examples) {
      return GatherMoments(context, model, examples, sites, options);
    };
    SiteMoments fits = gather(fit), chooses = gather(text.fit.last(last)),
                judges = gather(text.judge);
    for (const LayerOutput& layer : layers) {
      if (!sites.contains(layer.site)) continue;
      Sums sums = {OfAllUses(layer, fits), OfAllUses(layer, chooses),
                   OfAllUses(layer, judges)};
      const bool has = layer.has_bias || bias == NewBias::kAllowed;
      errors.push_back(RefitLayer(
          layer, sums, has ? Means::kApart : Means::kWithin, changed));
    }
  }
  return errors;
}

}  // namespace headwise
