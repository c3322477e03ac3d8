// Two selections by content. Door: rasp_heads.h.
#include "headwise/study/rasp_heads.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "headwise/study/support/toy.h"

namespace headwise {
namespace {

constexpr int64_t kSymbols = 8;  // one source each
constexpr int64_t kValues = 4;   // of a source
constexpr int64_t kSelected = 2;
constexpr int64_t kAsked = 4;  // queries of a sequence
// Columns: the symbol of a source, those that a query names, values.
constexpr int64_t kNames = kSymbols;
constexpr int64_t kContent = kNames + kSelected * kSymbols;
constexpr int64_t kRaspWidth = 30;  // a multiple of 1, 2 and 3 heads
static_assert(kContent + kValues <= kRaspWidth);

ToyBatch MakeSelections(Rng& rng, int64_t sequences) {
  ToyBatch batch{Tensor(DType::kF32, {sequences, kAsked, kRaspWidth}),
                 Tensor(DType::kF32, {sequences, kSymbols, kRaspWidth}),
                 Tensor(DType::kF32, {sequences, kAsked, kSelected * kValues})};
  for (int64_t b = 0; b < sequences; ++b) {
    float* source = batch.source.As<float>() + b * kSymbols * kRaspWidth;
    for (int64_t j = 0; j < kSymbols; ++j) {
      float* row = source + j * kRaspWidth;
      row[j] = 1;
      for (int64_t c = 0; c < kValues; ++c) {
        row[kContent + c] = static_cast<float>(rng.Normal());
      }
    }
    for (int64_t i = 0; i < kAsked; ++i) {
      float* query = batch.x.As<float>() + (b * kAsked + i) * kRaspWidth;
      float* target =
          batch.target.As<float>() + (b * kAsked + i) * kSelected * kValues;
      const auto first = static_cast<int64_t>(rng.Below(kSymbols));
      for (int64_t s = 0; s < kSelected; ++s) {
        // The second is another.
        const int64_t symbol =
            s == 0 ? first : (first + rng.Between(1, kSymbols - 1)) % kSymbols;
        query[kNames + s * kSymbols + symbol] = 1;
        std::copy_n(source + symbol * kRaspWidth + kContent, kValues,
                    target + s * kValues);
      }
    }
  }
  return batch;
}

// Of weights [inputs, outputs], or of their gradients: keys read symbols,
// values read values.
void SeparateReading(MultiHeadAttentionParameters& parameters) {
  float* w_k = parameters.w_k.As<float>();
  std::fill(w_k + kNames * kRaspWidth, w_k + kRaspWidth * kRaspWidth, 0.0f);
  std::fill_n(parameters.w_v.As<float>(), kContent * kRaspWidth, 0.0f);
}

}  // namespace

double SelectTwo(Context& context, int64_t heads, uint64_t seed, int64_t steps,
                 StudyClock& clock) {
  MultiHeadAttention module({.d_model = kRaspWidth, .heads = heads}, seed);
  SeparateReading(module.parameters());
  ToyTraining how;
  how.steps = steps;
  how.seed = seed;
  how.freeze = SeparateReading;
  TrainToy(
      context, module, [](Rng& rng) { return MakeSelections(rng, 32); }, how,
      clock);
  Rng fresh(seed, 2);
  const std::vector<double> shares =
      ExplainedShares(context, module, MakeSelections(fresh, 512));
  return std::accumulate(shares.begin(), shares.end(), 0.0) /
         static_cast<double>(shares.size());
}

}  // namespace headwise
