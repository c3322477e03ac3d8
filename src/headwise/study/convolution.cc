// Claim: multi-head attention with quadratic position encodings can be any
//   convolution: one head per tap (Cordonnier et al., openreview HJlnC1rKPB).
// Expectation: K heads make a K-tap filter and 9 heads a 3 × 3 one; with
//   attention of sharpness α the error falls as e^−α; with one head fewer it
//   stays.
// Kind: law.
//
// Head for the shift Δ: −α‖j − i − Δ‖² = −α‖j‖² + 2α j·(i + Δ) + (row
// constant), so q_i = (i + Δ, 1) and k_j = (2αj, −α‖j‖²) are linear in the
// features (position, ‖position‖², 1) of each word. W_V reads the channels, W_O
// holds the filter's taps. Positions whose window leaves the picture are not
// compared.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "headwise/multi_head_attention.h"
#include "headwise/study/study.h"
#include "headwise/tensor/matrix.h"

namespace headwise {
namespace convolution_study {
namespace {

constexpr uint64_t kSeed = 1;
constexpr int64_t kChannels = 4;
constexpr int64_t kFeatures = 4;  // row, column, row² + column², 1
constexpr int64_t kWidth = kChannels + kFeatures;
constexpr int64_t kHeadDim = 4;

struct Tap {
  int64_t row, column;
};

struct Filter {
  int64_t height, width;     // of the picture
  std::vector<Tap> shifts;   // one per tap, hence per head
  std::vector<Matrix> taps;  // [channels in, channels out] each
};

Filter MakeFilter(int64_t height, int64_t width, int64_t tap_rows,
                  int64_t tap_columns, Rng& rng) {
  Filter filter{height, width, {}, {}};
  for (int64_t r = -(tap_rows / 2); r <= tap_rows / 2; ++r) {
    for (int64_t c = -(tap_columns / 2); c <= tap_columns / 2; ++c) {
      filter.shifts.push_back({r, c});
      filter.taps.push_back(RandomNormal(kChannels, kChannels, rng));
    }
  }
  return filter;
}

// Positions are centred: smaller squares keep more digits of the logits.
double Centred(int64_t index, int64_t size) {
  return static_cast<double>(index) - static_cast<double>(size - 1) / 2;
}

// Channels and position features of every pixel, [pixels, kWidth].
Matrix Pixels(const Filter& filter, Rng& rng) {
  Matrix x(filter.height * filter.width, kWidth);
  for (int64_t p = 0; p < x.rows; ++p) {
    for (int64_t c = 0; c < kChannels; ++c) x(p, c) = rng.Normal();
    const double row = Centred(p / filter.width, filter.height);
    const double column = Centred(p % filter.width, filter.width);
    const double features[] = {row, column, row * row + column * column, 1};
    for (int64_t f = 0; f < kFeatures; ++f) x(p, kChannels + f) = features[f];
  }
  return x;
}

MultiHeadAttention Build(const Filter& filter, double alpha) {
  const int64_t heads = static_cast<int64_t>(filter.taps.size());
  MultiHeadAttention module(
      {.d_model = kWidth, .heads = heads, .head_dim = kHeadDim}, kSeed);
  MultiHeadAttentionParameters& p = module.parameters();
  const double unscale = std::sqrt(static_cast<double>(kHeadDim));
  for (int64_t h = 0; h < heads; ++h) {
    Matrix q(kWidth, kHeadDim), k(kWidth, kHeadDim), v(kWidth, kHeadDim);
    const int64_t row = kChannels, column = row + 1, square = row + 2;
    const int64_t one = row + 3;
    q(row, 0) = q(column, 1) = q(one, 2) = 1;
    q(one, 0) = static_cast<double>(filter.shifts[h].row);
    q(one, 1) = static_cast<double>(filter.shifts[h].column);
    k(row, 0) = k(column, 1) = 2 * alpha * unscale;
    k(square, 2) = -alpha * unscale;
    for (int64_t c = 0; c < kChannels; ++c) v(c, c) = 1;
    SetColumns(p.w_q, h * kHeadDim, q);
    SetColumns(p.w_k, h * kHeadDim, k);
    SetColumns(p.w_v, h * kHeadDim, v);
    for (int64_t i = 0; i < kHeadDim; ++i) {
      for (int64_t o = 0; o < kWidth; ++o) {
        p.w_o.As<float>()[(h * kHeadDim + i) * kWidth + o] =
            o < kChannels ? static_cast<float>(filter.taps[h](i, o)) : 0.0f;
      }
    }
  }
  return module;
}

// Largest |attention − convolution| over pixels whose window is inside, in
// units of the convolution's largest value.
double Error(const Filter& filter, const Matrix& x, const Matrix& out) {
  double worst = 0, largest = 0;
  for (int64_t p = 0; p < x.rows; ++p) {
    const int64_t row = p / filter.width, column = p % filter.width;
    std::vector<double> want(kChannels);
    bool inside = true;
    for (size_t t = 0; t < filter.taps.size(); ++t) {
      const int64_t r = row + filter.shifts[t].row;
      const int64_t c = column + filter.shifts[t].column;
      inside =
          inside && r >= 0 && r < filter.height && c >= 0 && c < filter.width;
      if (!inside) break;
      for (int64_t i = 0; i < kChannels; ++i) {
        for (int64_t o = 0; o < kChannels; ++o) {
          want[o] += x(r * filter.width + c, i) * filter.taps[t](i, o);
        }
      }
    }
    if (!inside) continue;
    for (int64_t o = 0; o < kChannels; ++o) {
      worst = Worst(worst, std::abs(out(p, o) - want[o]));
      largest = Worst(largest, std::abs(want[o]));
    }
  }
  return worst / largest;
}

// Least-squares slope of ln y against x.
double LogSlope(const Series& series) {
  const double n = static_cast<double>(series.x.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (size_t i = 0; i < series.x.size(); ++i) {
    const double value = std::log(series.y[i]);
    x += series.x[i];
    y += value;
    xx += series.x[i] * series.x[i];
    xy += series.x[i] * value;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

struct Case {
  const char* name;
  int64_t height, width, tap_rows, tap_columns;
};

StudyResult Run(Context& context, const StudyRequest& /*request*/) {
  constexpr Case kCases[] = {{"3 heads = 3-tap", 1, 32, 1, 3},
                             {"5 heads = 5-tap", 1, 32, 1, 5},
                             {"9 heads = 3 × 3", 8, 8, 3, 3}};
  StudyResult result;
  result.seeds = {kSeed};
  LinePlot plot{"Attention made into a convolution: error against sharpness",
                "sharpness α",
                "relative error",
                false,
                true,
                {}};
  for (const Case& one : kCases) {
    Rng rng(kSeed, plot.series.size());
    const Filter filter =
        MakeFilter(one.height, one.width, one.tap_rows, one.tap_columns, rng);
    const Tensor x = AsSequence(Pixels(filter, rng));
    const Matrix exact = FromTensor(x);
    Series series{one.name, {}, {}};
    for (int alpha = 3; alpha <= 12; ++alpha) {
      const MultiHeadAttention module = Build(filter, alpha);
      series.x.push_back(alpha);
      series.y.push_back(Error(
          filter, exact, FromTensor(module.Forward(context, {.x = x.view()}))));
    }
    result.Near(fmt::format("{}: slope of ln(error) in α", one.name),
                LogSlope(series), -1, 0.05);
    result.AtMost(fmt::format("{}: error at α = 12", one.name), series.y.back(),
                  1e-4);

    const MultiHeadAttention module = Build(filter, 12);
    std::vector<int32_t> fewer;
    for (size_t h = 1; h < filter.taps.size(); ++h) {
      fewer.push_back(static_cast<int32_t>(h));
    }
    MultiHeadAttentionInput input{.x = x.view()};
    input.active_heads = fewer;
    result.AtLeast(
        fmt::format("{}: error with one head fewer", one.name),
        Error(filter, exact, FromTensor(module.Forward(context, input))), 0.05);
    plot.series.push_back(std::move(series));
  }
  result.pictures.push_back(std::move(plot));
  return result;
}

}  // namespace
}  // namespace convolution_study

const Study kConvolutionStudy = {
    .name = "convolution",
    .claim =
        "K heads with hand-set weights are a K-tap convolution, 9 heads "
        "a 3 × 3 one.",
    .expectation =
        "error ~ e^−α in the sharpness α of the heads; one head "
        "fewer does not do",
    .kind = StudyKind::kLaw,
    .run = convolution_study::Run};

}  // namespace headwise
