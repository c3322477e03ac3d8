// Predictions and embeddings of two models. Door: agreement.h.
#include "headwise/heads/pruning/agreement.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "headwise/heads/importance/host_values.h"
#include "headwise/heads/importance/variants.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

constexpr int64_t kLogitsAtOnce = int64_t{1} << 21;  // of each model

// f32 [at, vocabulary] on the host, after the rows `at` of a model's states.
ConstTensorView LogitRows(Context& context, const ModelStates& states,
                          std::span<const int32_t> at, Tensor& made,
                          Tensor& copy) {
  const int64_t rows = std::ssize(at);
  const Temp in(context, states.x.type, {rows, states.x.shape[1]});
  Temp memory;
  GatherRows(context, states.x, OnDevice(context, ViewOf(at), memory),
             in.view());
  made = Tensor(context, LogitType(states.model),
                {rows, states.model.config().vocabulary});
  states.model.Logits(context, in.view(), made.view());
  return HostF32(context, made.view(), copy);
}

// Log of the sum of exp, and the place of the largest.
struct Peak {
  double log_sum = 0;
  int64_t at = 0;
};
Peak PeakOf(const float* logits, int64_t classes) {
  const float* largest = std::max_element(logits, logits + classes);
  double sum = 0;
  for (int64_t i = 0; i < classes; ++i) {
    sum += std::exp(static_cast<double>(logits[i]) - *largest);
  }
  return {*largest + std::log(sum), largest - logits};
}

double Divergence(const float* p, double p_sum, const float* q, double q_sum,
                  int64_t classes) {
  double total = 0;
  for (int64_t i = 0; i < classes; ++i) {
    const double log_p = p[i] - p_sum;
    total += std::exp(log_p) * (log_p - (q[i] - q_sum));
  }
  return std::max(total, 0.0);  // which rounding may be below
}

// Of length 1, or 0.
TextVectors Directions(TextVectors all) {
  for (std::vector<double>& one : all) {
    const double square =
        std::inner_product(one.begin(), one.end(), one.begin(), 0.0);
    const double by = square > 0 ? 1 / std::sqrt(square) : 0;
    for (double& value : one) value *= by;
  }
  return all;
}

double Along(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// The place of the nearest other direction.
size_t NearestTo(const TextVectors& all, size_t of) {
  size_t nearest = of;
  double best = -2;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == of) continue;
    const double cosine = Along(all[of], all[i]);
    if (cosine <= best) continue;
    best = cosine;
    nearest = i;
  }
  return nearest;
}

}  // namespace

void AddAgreement(Context& context, const ExampleBatch& batch,
                  const ModelStates& whole, const ModelStates& other,
                  AgreementSums& sums) {
  const std::vector<int32_t>& starts = batch.predicting().starts;
  const size_t first = sums.divergence.size();
  sums.divergence.resize(first + starts.size() - 1);
  sums.same_token.resize(first + starts.size() - 1);
  std::vector<int32_t> at;
  std::vector<size_t> sequence;
  for (size_t b = 0; b + 1 < starts.size(); ++b) {
    for (int32_t t = starts[b]; t < starts[b + 1]; ++t) {
      if (batch.targets[t] == kIgnoreTarget) continue;
      at.push_back(t);
      sequence.push_back(first + b);
    }
  }
  const int64_t classes = whole.model.config().vocabulary;
  const auto block =
      static_cast<size_t>(std::clamp<int64_t>(kLogitsAtOnce / classes, 8, 512));
  for (size_t begin = 0; begin < at.size(); begin += block) {
    const size_t count = std::min(block, at.size() - begin);
    const auto rows = std::span<const int32_t>(at).subspan(begin, count);
    Tensor made[2], copy[2];
    const float* p =
        LogitRows(context, whole, rows, made[0], copy[0]).As<float>();
    const float* q =
        LogitRows(context, other, rows, made[1], copy[1]).As<float>();
    for (size_t i = 0; i < count; ++i, p += classes, q += classes) {
      const Peak a = PeakOf(p, classes), b = PeakOf(q, classes);
      sums.divergence[sequence[begin + i]] +=
          Divergence(p, a.log_sum, q, b.log_sum, classes);
      sums.same_token[sequence[begin + i]] += a.at == b.at ? 1 : 0;
    }
  }
}

TextVectors VectorsOf(Context& context, const Model& model,
                      std::span<const TextExample> examples) {
  TextVectors all;
  for (const TextExample& example : examples) {
    ExampleBatch batch;
    batch.ids = example.ids;
    batch.sequences.starts = {0, static_cast<int32_t>(example.ids.size())};
    batch.sequences.positions.resize(example.ids.size());
    std::iota(batch.sequences.positions.begin(),
              batch.sequences.positions.end(), 0);
    const CleanRun run = RunClean(context, model, batch);
    Tensor copy;
    const ConstTensorView x = HostF32(context, run.final.view(), copy);
    std::vector<double>& sum = all.emplace_back(x.shape[1]);
    for (int64_t i = 0; i < x.size(); ++i) {
      sum[i % x.shape[1]] += x.As<float>()[i];
    }
    for (double& value : sum) value /= static_cast<double>(x.shape[0]);
  }
  return all;
}

VectorAgreement CompareVectors(const TextVectors& whole,
                               const TextVectors& other) {
  const TextVectors a = Directions(whole), b = Directions(other);
  VectorAgreement agreement;
  for (size_t i = 0; i < a.size(); ++i) {
    agreement.cosine.push_back(Along(a[i], b[i]));
    agreement.same_neighbour.push_back(NearestTo(a, i) == NearestTo(b, i) ? 1
                                                                          : 0);
  }
  return agreement;
}

}  // namespace headwise
