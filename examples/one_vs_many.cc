// One wide head beside several narrow ones of the same total width: equally
// many weights, but as many distributions per word as there are heads. Words
// and weights are random; what differs is what the layer can hold.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "headwise/context.h"
#include "headwise/multi_head_attention.h"
#include "headwise/tensor.h"

int main() {
  const int64_t words = 6, width = 64, word = 2;
  headwise::Context context;
  headwise::Tensor x(headwise::DType::kF32, {1, words, width});
  for (int64_t i = 0; i < x.size(); ++i) {
    x.As<float>()[i] = std::sqrt(2.0f) * std::sin(1.7f * i * (1 + i % 7));
  }
  for (int64_t heads : {1, 2, 8}) {
    headwise::MultiHeadAttention attention({.d_model = width, .heads = heads},
                                           /*seed=*/1);
    std::printf("%d head(s) of width %d, %d weights\n", int(heads),
                int(attention.config().head_dim),
                int(headwise::ParameterCount(attention.config())));

    // Where word 2 looks, under each head, and on average.
    std::vector<double> average(words);
    std::vector<std::vector<double>> rows;
    for (int64_t h = 0; h < heads; ++h) {
      headwise::Tensor map = attention.Weights(context, h, {.x = x.view()});
      const float* row = map.As<float>() + word * words;
      std::printf("  head %d looks at", int(h));
      for (int64_t j = 0; j < words; ++j) {
        std::printf(" %.2f", row[j]);
        average[j] += row[j] / heads;
      }
      rows.emplace_back(row, row + words);
      std::printf("\n");
    }

    // What one distribution in place of them would lose: mean KL to the
    // average.
    double lost = 0;
    for (const std::vector<double>& row : rows) {
      for (int64_t j = 0; j < words; ++j) {
        lost += row[j] * std::log(row[j] / average[j]) / heads;
      }
    }
    std::printf("  averaged into one: %.3f nats lost, worth %.2f of %d\n", lost,
                std::exp(lost), int(heads));
  }
}
