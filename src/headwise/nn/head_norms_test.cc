// Norms of heads against their formula, and their gradients against finite
// differences.
#include "headwise/nn/head_norms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "headwise/base/rng.h"

namespace headwise::head_norms_test {
namespace {

using Numbers = std::vector<double>;

constexpr int64_t kRows = 3, kHeads = 2, kDim = 5, kStride = kHeads * kDim + 4;
constexpr float kEpsilon = 1e-3f;

enum class Sharing : uint8_t { kAlike, kEach, kTogether };

struct Case {
  NormKind kind = NormKind::kRms;
  Sharing sharing = Sharing::kAlike;
  float offset = 0;
};

class Normed {
 public:
  Normed(const Case& of, uint64_t seed) : case_(of) {
    Rng rng(seed);
    const int64_t count = of.sharing == Sharing::kEach ? kHeads : 1;
    const int64_t width =
        of.sharing == Sharing::kTogether ? kHeads * kDim : kDim;
    std::vector<Norm> norms;
    weights_.reserve(count);
    for (int64_t i = 0; i < count; ++i) {
      Tensor& weight = weights_.emplace_back(DType::kF32, Shape{width});
      Tensor& gradient = gradients_.emplace_back(DType::kF32, Shape{width});
      for (int64_t j = 0; j < width; ++j) {
        weight.As<float>()[j] = static_cast<float>(rng.Normal());
      }
      norms.emplace_back(of.kind, kEpsilon,
                         Parameter{"w", weight.view(), gradient.view()},
                         Parameter(), of.offset);
    }
    norms_ = count > 1 ? HeadNorms(std::move(norms)) : HeadNorms(norms[0]);
    for (int64_t i = 0; i < x_.size(); ++i) {
      x_.As<float>()[i] = static_cast<float>(rng.Normal());
      out_.push_back(rng.Normal());
    }
  }

  // Heads of the rows: the last columns are nobody's.
  static TensorView HeadsIn(Tensor& rows) {
    TensorView view(rows.As<float>(), DType::kF32, {kRows, kHeads, kDim});
    view.stride[0] = kStride;
    return view;
  }

  // Σ out · y by the formula.
  double Formula() const {
    double sum = 0;
    const bool together = case_.sharing == Sharing::kTogether;
    const int64_t width = together ? kHeads * kDim : kDim;
    for (int64_t t = 0; t < kRows; ++t) {
      for (int64_t begin = 0; begin < kHeads * kDim; begin += width) {
        const int64_t at = t * kStride + begin;
        const float* x = x_.As<float>() + at;
        const size_t own = case_.sharing == Sharing::kEach ? begin / kDim : 0;
        double mean = 0, squares = 0;
        for (int64_t i = 0; i < width; ++i) {
          if (case_.kind == NormKind::kLayer) mean += double{x[i]} / width;
        }
        for (int64_t i = 0; i < width; ++i) squares += std::pow(x[i] - mean, 2);
        const double root = std::sqrt(squares / width + kEpsilon);
        for (int64_t i = 0; i < width; ++i) {
          const double gain = weights_[own].As<float>()[i] + case_.offset;
          sum += out_[at + i] * (x[i] - mean) / root * gain;
        }
      }
    }
    return sum;
  }

  void ExpectForwardAndBackward() {
    Context context({1, ""});
    Tensor y(DType::kF32, {kRows, kStride}), dx(DType::kF32, {kRows, kStride});
    std::copy_n(x_.As<float>(), x_.size(), y.As<float>());
    std::copy(out_.begin(), out_.end(), dx.As<float>());
    HeadNormsSaved saved;
    norms_.Forward(context, HeadsIn(y), &saved);
    double sum = 0;
    for (int64_t t = 0; t < kRows; ++t) {
      for (int64_t i = 0; i < kHeads * kDim; ++i) {
        sum += out_[t * kStride + i] * y.As<float>()[t * kStride + i];
      }
      EXPECT_EQ(y.As<float>()[t * kStride + kHeads * kDim],
                x_.As<float>()[t * kStride + kHeads * kDim]);
    }
    EXPECT_NEAR(sum, Formula(), 1e-4);
    norms_.Backward(context, HeadsIn(x_), saved, HeadsIn(dx));
    ExpectSlopes(x_, dx, kHeads * kDim);
    for (size_t i = 0; i < weights_.size(); ++i) {
      ExpectSlopes(weights_[i], gradients_[i], weights_[i].size());
    }
    for (int64_t head = 0; head < kHeads; ++head) {
      const Tensor gain = norms_.Gain(context, head, kDim);
      const bool each = case_.sharing == Sharing::kEach;
      const bool together = case_.sharing == Sharing::kTogether;
      EXPECT_EQ(gain.As<float>()[1],
                weights_[each ? head : 0]
                        .As<float>()[(together ? head * kDim : 0) + 1] +
                    case_.offset);
    }
  }

 private:
  // The first `count` numbers of `of` and the gradient by them.
  void ExpectSlopes(Tensor& of, const Tensor& gradient, int64_t count) {
    constexpr float kStep = 1e-2f;
    for (int64_t i = 0; i < count; ++i) {
      float& value = of.As<float>()[i];
      const float before = value;
      value = before + kStep;
      const double above = Formula();
      value = before - kStep;
      const double below = Formula();
      value = before;
      const double slope = (above - below) / (2 * kStep);
      EXPECT_NEAR(gradient.As<float>()[i], slope,
                  2e-3 * std::max(1.0, std::abs(slope)))
          << i;
    }
  }

  Case case_;
  std::vector<Tensor> weights_, gradients_;
  HeadNorms norms_;
  Tensor x_{DType::kF32, {kRows, kStride}};
  Numbers out_;
};

TEST(HeadNorms, AreAsTheirFormulaForwardAndBackward) {
  uint64_t seed = 1;
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    for (const Sharing sharing :
         {Sharing::kAlike, Sharing::kEach, Sharing::kTogether}) {
      for (const float offset : {0.0f, 1.0f}) {
        SCOPED_TRACE(testing::Message()
                     << "kind " << static_cast<int>(kind) << ", sharing "
                     << static_cast<int>(sharing) << ", offset " << offset
                     << ", seed " << seed);
        Normed({kind, sharing, offset}, seed++).ExpectForwardAndBackward();
      }
    }
  }
}

TEST(HeadNorms, FitHeadsByWidthAndNumber) {
  Tensor weight(DType::kF32, {kDim});
  const Norm norm(NormKind::kRms, kEpsilon, {"w", weight.view()}, {});
  EXPECT_TRUE(HeadNorms(norm).Fits(kHeads, kDim));
  EXPECT_TRUE(HeadNorms(norm).Fits(1, kDim));
  EXPECT_FALSE(HeadNorms(norm).Fits(kHeads, kDim + 1));
  EXPECT_TRUE(HeadNorms(std::vector<Norm>(kHeads, norm)).Fits(kHeads, kDim));
  EXPECT_FALSE(HeadNorms(std::vector<Norm>(3, norm)).Fits(kHeads, kDim));
}

}  // namespace
}  // namespace headwise::head_norms_test
