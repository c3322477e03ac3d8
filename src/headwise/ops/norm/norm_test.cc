#include "headwise/ops/norm/norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/ops/norm/implementation.h"
#include "headwise/ops/test_device.h"
#include "headwise/ops/test_values.h"

namespace headwise::norm_test {
namespace {

using testing::HasSubstr;

// A problem with its tensors, and what an implementation makes of it.
struct Trial {
  NormProblem problem;
  bool has_bias = true;
  DType type = DType::kF32;
  Tensor x, weight, bias, dy;
  Tensor y, mean, scale, dx, dweight, dbias;
  // What is kept of x, and what is added to dx, in half of the trials.
  bool has_more = false;
  Tensor kept, added;

  Trial(const NormProblem& p, const Shape& shape, Rng& rng,
        DType dtype = DType::kF32)
      : problem(p), type(dtype) {
    const int64_t width = shape[shape.rank() - 1];
    has_bias = rng.Below(2) == 0;
    x = RandomTensor(type, shape, rng);
    dy = RandomTensor(type, shape, rng);
    weight = RandomTensor(DType::kF32, {width}, rng);
    bias = RandomTensor(DType::kF32, {width}, rng);
    has_more = rng.Below(2) == 0;
    added = RandomTensor(type, shape, rng);
  }

  void Run(Context& context) {
    const ConstTensorView in = std::as_const(x).view();
    const Shape shape(std::span(in.shape.data(), in.rank));
    const int64_t width = shape[shape.rank() - 1];
    y = Tensor(type, shape);
    dx = Tensor(type, shape);
    mean = Tensor(DType::kF32, {x.size() / width});
    scale = Tensor(DType::kF32, {x.size() / width});
    dweight = Tensor(DType::kF32, {width});
    dbias = Tensor(DType::kF32, {width});
    kept = Tensor(type, shape);
    Mirror at(context);
    NormArgs args = {.x = at(in),
                     .weight = at(weight.view()),
                     .y = at(y.view()),
                     .mean = at(mean.view()),
                     .scale = at(scale.view())};
    if (has_bias) args.bias = at(bias.view());
    if (has_more) args.kept = at(kept.view());
    NormForward(context, problem, args);
    NormGrads grads = {.dy = at(std::as_const(dy).view()),
                       .dx = at(dx.view()),
                       .dweight = at(dweight.view()),
                       .dbias = at(dbias.view())};
    if (has_more) grads.added = at(std::as_const(added).view());
    NormBackward(context, problem, args, grads);
    at.Back();
    if (!has_more) return;
    EXPECT_EQ(ToVector(kept.view()), ToVector(x.view()));
  }
  std::vector<const Tensor*> Results() const {
    return {&y, &mean, &scale, &dx, &dweight, &dbias};
  }
};

void ExpectNear(const Trial& found, const Trial& truth, double tolerance) {
  const auto left = found.Results(), right = truth.Results();
  for (size_t t = 0; t < left.size(); ++t) {
    const auto a = ToVector(left[t]->view()), b = ToVector(right[t]->view());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i])))
          << "result " << t << " element " << i;
    }
  }
}

Context Only(const std::string& name, int threads = 2) {
  return Context({threads, "norm:" + name});
}

// Holds an entry to the reference on a random problem. False where the entry
// does not take its type.
bool Agrees(Context& context, const NormProblem& p, const Shape& shape,
            DType type, uint64_t seed) {
  Rng rng(seed), again(seed);
  Trial truth(p, shape, rng, type), found(p, shape, again, type);
  Context reference = Only("reference");
  truth.Run(reference);
  if (!IsTaken([&] { found.Run(context); })) return false;
  ExpectNear(found, truth, std::max(1e-4, Tolerance(type)));
  return true;
}

TEST(Norm, EveryImplementationAgreesWithTheReference) {
  const uint64_t seed = 20261;
  for (const auto& entry : NormImplementations().entries) {
    const auto context = ContextFor("norm", entry.name);
    if (!context) continue;
    Rng rng(seed);
    int taken = 0;
    for (int round = 0; round < 60; ++round) {
      const NormProblem p{rng.Below(2) == 0 ? NormKind::kLayer : NormKind::kRms,
                          1e-5f};
      const bool wide = round % 10 == 9;
      const int64_t rows = 1 + static_cast<int64_t>(rng.Below(wide ? 4 : 90));
      int64_t width = 1 + static_cast<int64_t>(rng.Below(wide ? 5000 : 70));
      if (round % 4 == 1) width = (width + 7) / 8 * 8;  // as wide loads want it
      const Shape shape =
          round % 2 == 0 ? Shape{rows, width} : Shape{rows, 3, width};
      const DType type = round % 3 == 2 ? DType::kBF16 : DType::kF32;
      SCOPED_TRACE(std::string(entry.name) + " " + Name(type) + " " +
                   ToString(shape) + " seed " + std::to_string(seed + round));
      taken += Agrees(*context, p, shape, type, seed + round);
    }
    EXPECT_GE(taken, 30) << entry.name;
  }
}

// Σ y · dy by the formulas of norm.h in double.
double Loss(const NormProblem& p, int64_t width, const std::vector<double>& x,
            const std::vector<double>& w, const std::vector<double>& b,
            const std::vector<double>& dy) {
  double sum = 0;
  for (size_t row = 0; row < x.size() / width; ++row) {
    const double* in = x.data() + row * width;
    double mean = 0, squares = 0;
    for (int64_t i = 0; p.kind == NormKind::kLayer && i < width; ++i) {
      mean += in[i] / static_cast<double>(width);
    }
    for (int64_t i = 0; i < width; ++i) {
      squares += (in[i] - mean) * (in[i] - mean) / static_cast<double>(width);
    }
    for (int64_t i = 0; i < width; ++i) {
      sum += ((in[i] - mean) / std::sqrt(squares + p.epsilon) * w[i] + b[i]) *
             dy[row * width + i];
    }
  }
  return sum;
}

TEST(Norm, TheReferencesGradientsAreSlopes) {
  Rng rng(11);
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    const NormProblem p{kind, 1e-5f};
    Trial t(p, {6, 3, 5}, rng);
    t.has_bias = true;
    t.has_more = false;
    Context context = Only("reference", 1);
    t.Run(context);
    const auto dy = ToVector(t.dy.view());
    std::vector<double> x = ToVector(t.x.view()), w = ToVector(t.weight.view()),
                        b = ToVector(t.bias.view()), y = ToVector(t.y.view());
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    EXPECT_NEAR(sum, Loss(p, 5, x, w, b, dy), 1e-4);
    const auto check = [&](std::vector<double>& of, const Tensor& gradient) {
      const auto found = ToVector(gradient.view());
      for (size_t i = 0; i < of.size(); ++i) {
        const double h = 1e-5, middle = of[i];
        of[i] = middle + h;
        const double up = Loss(p, 5, x, w, b, dy);
        of[i] = middle - h;
        const double slope = (up - Loss(p, 5, x, w, b, dy)) / (2 * h);
        of[i] = middle;
        ASSERT_NEAR(found[i], slope, 1e-4 * std::max(1.0, std::abs(slope)));
      }
    };
    check(x, t.dx);
    check(w, t.dweight);
    check(b, t.dbias);
  }
}

// Bit by bit on the host, whose residual streams are added to so.
TEST(Norm, WhatIsAddedIsAddedToTheRoundedGradient) {
  Rng rng(8);
  const NormProblem p{NormKind::kLayer, 1e-5f};
  Trial t(p, {9, 37}, rng);
  t.has_more = false;
  Context context({2, ""});
  t.Run(context);
  const auto dx = ToVector(t.dx.view()), added = ToVector(t.added.view());
  NormBackward(context, p,
               {.x = t.x.view(),
                .weight = t.weight.view(),
                .mean = t.mean.view(),
                .scale = t.scale.view()},
               {.dy = t.dy.view(),
                .dx = t.added.view(),  // in place
                .added = t.added.view()});
  const auto sum = ToVector(t.added.view());
  for (size_t i = 0; i < sum.size(); ++i) {
    EXPECT_EQ(static_cast<float>(sum[i]),
              static_cast<float>(added[i]) + static_cast<float>(dx[i]));
  }
}

// Widths of which a warp of a GPU holds a row, and those beyond.
TEST(Norm, EveryImplementationAgreesInWidthsOfPacks) {
  for (const auto& entry : NormImplementations().entries) {
    const auto context = ContextFor("norm", entry.name);
    if (!context) continue;
    uint64_t seed = 77;
    for (const int64_t width :
         {8, 64, 256, 384, 768, 1024, 1032, 2056, 4096, 5128, 8192}) {
      for (const DType type : {DType::kF32, DType::kBF16}) {
        for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
          SCOPED_TRACE(std::string(entry.name) + " " + std::to_string(width));
          const int64_t rows = width < 1024 ? 67 : 19;
          Agrees(*context, {kind, 1e-5f}, {rows, width}, type, ++seed);
        }
      }
    }
  }
}

TEST(Norm, TypesThatNoOtherTakesAreTakenByTheReference) {
  Rng rng(5);
  Trial t({NormKind::kRms, 1e-6f}, {4, 8}, rng, DType::kBF16);
  Context context({1, ""});
  t.Run(context);
  for (const double v : ToVector(t.y.view())) EXPECT_TRUE(std::isfinite(v));
  Context fast = Only("cpu.f32");
  EXPECT_THROW(t.Run(fast), Error);
}

TEST(Norm, GradientsOfParametersAreAddedTo) {
  Rng rng(6);
  const NormProblem p{NormKind::kLayer, 1e-5f};
  Trial t(p, {70, 48}, rng);
  Context context({2, ""});
  t.Run(context);
  const auto once = ToVector(t.dweight.view());
  const NormArgs args = {.x = t.x.view(),
                         .weight = t.weight.view(),
                         .mean = t.mean.view(),
                         .scale = t.scale.view()};
  NormBackward(context, p, args,
               {t.dy.view(), t.dx.view(), t.dweight.view(), {}});
  const auto twice = ToVector(t.dweight.view());
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_FLOAT_EQ(static_cast<float>(twice[i]),
                    static_cast<float>(2 * once[i]));
  }
}

TEST(Norm, SegmentsOfAStridedRowAreNormalisedEachOnItsOwn) {
  Rng rng(4);
  const int64_t rows = 5, heads = 3, width = 8, stride = 40;
  Tensor x = RandomTensor(DType::kF32, {rows, stride}, rng),
         y = RandomTensor(DType::kF32, {rows, stride}, rng),
         w = RandomTensor(DType::kF32, {width}, rng);
  const auto before = ToVector(y.view());
  const auto strided = [&](Tensor& of) {
    TensorView view(of.view().data, DType::kF32, {rows, heads, width});
    view.stride[0] = stride;
    return view;
  };
  Context context({2, ""});
  const NormProblem p{NormKind::kRms, 1e-6f};
  NormForward(context, p,
              {.x = strided(x), .weight = w.view(), .y = strided(y)});
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t s = 0; s < heads; ++s) {
      Tensor one(DType::kF32, {1, width});
      const int64_t at = row * stride + s * width;
      NormForward(context, p,
                  {.x = View(x.As<float>() + at, {1, width}),
                   .weight = w.view(),
                   .y = one.view()});
      for (int64_t i = 0; i < width; ++i) {
        EXPECT_EQ(y.As<float>()[at + i], one.As<float>()[i]);
      }
    }
    for (int64_t i = heads * width; i < stride; ++i) {
      EXPECT_EQ(y.As<float>()[row * stride + i], before[row * stride + i]);
    }
  }
}

TEST(Norm, WhatDoesNotFitIsNamed) {
  Context context({1, ""});
  Tensor x(DType::kF32, {2, 4}), wrong(DType::kF32, {3});
  const auto message = [&](const NormArgs& args) -> std::string {
    try {
      NormForward(context, {}, args);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({.x = x.view(), .weight = wrong.view(), .y = x.view()}),
              HasSubstr("weight f32 [4]"));
  EXPECT_THAT(message({.x = x.view()}), HasSubstr("y f32 [2, 4]"));
  ConstTensorView elsewhere = x.view();
  elsewhere.device = Device::Cuda(1);
  EXPECT_THAT(message({.x = elsewhere, .y = x.view()}), HasSubstr("on cuda:1"));
}

}  // namespace
}  // namespace headwise::norm_test
