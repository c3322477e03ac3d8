// Linear probes. Door: probes.h.
#include "headwise/study/support/probes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "headwise/runtime/on_host.h"
#include "headwise/study/support/trained.h"
#include "headwise/tensor/solve.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

constexpr double kRidge = 1e-3;  // of a state's mean square

// States f32 [T, width] after 0 … layers layers.
std::vector<Tensor> StatesOf(Context& context, const Model& model,
                             const TrainBatch& batch) {
  const Stack& stack = model.stack();
  StackInput input;
  input.ids = batch.ids;
  input.batch = &batch.batch;
  const auto rows = static_cast<int64_t>(batch.ids.size());
  const Shape shape = {rows, model.config().width};
  const Temp memory(context, model.type(), shape);
  std::vector<Tensor> states;
  const auto keep = [&] {
    const HostFloats here(context, memory.view());
    states.emplace_back(DType::kF32, shape);
    std::copy_n(here.view().As<float>(), here.view().size(),
                states.back().As<float>());
  };
  model.Embed(context, stack, input, memory.view());
  keep();
  const auto layers = static_cast<int64_t>(stack.blocks.size());
  for (int64_t layer = 0; layer < layers; ++layer) {
    model.RunLayer(context, stack, layer, input, memory.view());
    keep();
  }
  return states;
}

// A state as what is read by a probe: of unit mean square over the batch, and
// a constant behind it.
class Features {
 public:
  Features(const Tensor& states, double scale)
      : values_(states.As<float>()), width_(states.shape(1)), scale_(scale) {}
  int64_t size() const { return width_ + 1; }
  void Read(int64_t row, std::vector<double>& to) const {
    for (int64_t i = 0; i < width_; ++i) {
      to[i] = scale_ * values_[row * width_ + i];
    }
    to[width_] = 1;
  }

 private:
  const float* values_;
  int64_t width_;
  double scale_;
};

double ScaleOf(const Tensor& states) {
  double squares = 0;
  for (int64_t i = 0; i < states.size(); ++i) {
    const double value = states.As<float>()[i];
    squares += value * value;
  }
  return 1 / std::sqrt(
                 std::max(squares / static_cast<double>(states.size()), 1e-30));
}

// Weights [features, classes] that tell the labels best by least squares.
Matrix Fit(const Features& features, const std::vector<int32_t>& labels,
           int64_t classes) {
  const int64_t n = features.size();
  Matrix gram(n, n), sums(n, classes);
  std::vector<double> x(n);
  double rows = 0;
  for (size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] == kNoLabel) continue;
    features.Read(static_cast<int64_t>(row), x);
    for (int64_t i = 0; i < n; ++i) {
      double* to = &gram(i, 0);
      for (int64_t j = 0; j <= i; ++j) to[j] += x[i] * x[j];
      sums(i, labels[row]) += x[i];
    }
    ++rows;
  }
  for (int64_t i = 0; i < n; ++i) {
    gram(i, i) += kRidge * std::max(rows, 1.0);
    for (int64_t j = 0; j < i; ++j) gram(j, i) = gram(i, j);
  }
  SolvePositive(gram, sums);
  return sums;
}

double ShareOf(const Features& features, const std::vector<int32_t>& labels,
               const Matrix& weights) {
  std::vector<double> x(features.size()), scores(weights.columns);
  double right = 0, rows = 0;
  for (size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] == kNoLabel) continue;
    features.Read(static_cast<int64_t>(row), x);
    std::fill(scores.begin(), scores.end(), 0.0);
    for (int64_t i = 0; i < weights.rows; ++i) {
      for (int64_t c = 0; c < weights.columns; ++c) {
        scores[c] += x[i] * weights(i, c);
      }
    }
    const auto told = std::max_element(scores.begin(), scores.end());
    right += told - scores.begin() == labels[row] ? 1 : 0;
    ++rows;
  }
  return right / std::max(rows, 1.0);
}

// The share, among the test labels, of the most frequent training label.
double Chance(const ProbeLabels& labels) {
  std::vector<int64_t> counts(labels.classes);
  for (const int32_t label : labels.train) {
    if (label != kNoLabel) ++counts[label];
  }
  const auto most = static_cast<int32_t>(
      std::max_element(counts.begin(), counts.end()) - counts.begin());
  double hits = 0, rows = 0;
  for (const int32_t label : labels.test) {
    hits += label == most ? 1 : 0;
    rows += label != kNoLabel ? 1 : 0;
  }
  return hits / std::max(rows, 1.0);
}

}  // namespace

double ProbeScores::best() const {
  return *std::max_element(right.begin(), right.end());
}

int64_t ProbeScores::DepthOfGain() const {
  const double wanted = chance + 0.9 * (best() - chance);
  return std::find_if(right.begin(), right.end(),
                      [&](double share) { return share >= wanted; }) -
         right.begin();
}

std::vector<ProbeScores> ProbeLayers(Context& context, const Model& model,
                                     const TrainBatch& train,
                                     const TrainBatch& test,
                                     const std::vector<ProbeLabels>& labels) {
  const std::vector<Tensor> from = StatesOf(context, model, train);
  const std::vector<Tensor> to = StatesOf(context, model, test);
  std::vector<ProbeScores> scores(labels.size());
  for (size_t l = 0; l < labels.size(); ++l) {
    scores[l].right.resize(from.size());
    scores[l].chance = Chance(labels[l]);
  }
  const auto depths = static_cast<int64_t>(from.size());
  Context host({.threads = context.threads(), .implementations = ""});
  ForEachRun(host, depths * std::ssize(labels), [&](Context&, int64_t i) {
    const int64_t depth = i % depths, l = i / depths;
    const double scale = ScaleOf(from[depth]);
    const Matrix weights =
        Fit(Features(from[depth], scale), labels[l].train, labels[l].classes);
    scores[l].right[depth] =
        ShareOf(Features(to[depth], scale), labels[l].test, weights);
  });
  return scores;
}

ProbeLabels NeighbourLabels(std::string name, const TrainBatch& train,
                            const TrainBatch& test, int64_t places,
                            int64_t classes) {
  std::map<int32_t, int64_t> counts;
  for (const int32_t id : train.ids) ++counts[id];
  std::vector<std::pair<int64_t, int32_t>> frequent;
  for (const auto& [id, count] : counts) frequent.emplace_back(-count, id);
  std::sort(frequent.begin(), frequent.end());
  frequent.resize(std::min<size_t>(frequent.size(), classes));
  std::map<int32_t, int32_t> label_of;
  for (const auto& [count, id] : frequent) {
    label_of.emplace(id, static_cast<int32_t>(label_of.size()));
  }
  const auto label = [&](const TrainBatch& batch) {
    std::vector<int32_t> labels(batch.ids.size(), kNoLabel);
    const auto& starts = batch.batch.starts;
    for (size_t b = 0; b + 1 < starts.size(); ++b) {
      for (int64_t t = starts[b]; t < starts[b + 1]; ++t) {
        const int64_t other = t + places;
        if (other < starts[b] || other >= starts[b + 1]) continue;
        const auto found = label_of.find(batch.ids[other]);
        if (found != label_of.end()) labels[t] = found->second;
      }
    }
    return labels;
  };
  return {.name = std::move(name),
          .classes = std::ssize(frequent),
          .train = label(train),
          .test = label(test)};
}

}  // namespace headwise
