// Every implementation against the reference, the reference against slopes.
#include "headwise/ops/gate/gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/ops/gate/implementation.h"
#include "headwise/ops/test_device.h"
#include "headwise/tensor/slice.h"

namespace headwise::gate_test {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

Floats Random(int64_t count, Rng& rng) {
  Floats values(count);
  for (float& value : values) value = static_cast<float>(rng.Normal());
  return values;
}

// Not so near to 1 that 1 − f · g has no digits left.
Floats Gates(int64_t count, Rng& rng) {
  Floats values(count);
  for (float& value : values) value = static_cast<float>(0.9 * rng.Uniform());
  return values;
}

Doubles Uniform(int64_t count, Rng& rng) {
  Doubles values(count);
  for (double& value : values) value = 0.001 + 0.998 * rng.Uniform();
  return values;
}

// Sequences of a few tokens, one of which may have none.
std::vector<int32_t> Starts(Rng& rng) {
  std::vector<int32_t> starts = {0};
  for (uint64_t b = 0; b <= rng.Below(4); ++b) {
    starts.push_back(starts.back() + static_cast<int32_t>(rng.Below(60)));
  }
  starts.push_back(starts.back() + 3);
  return starts;
}

TensorView Matrix(Floats& values, int64_t rows) {
  return Reshaped(ViewOf(values),
                  {rows, static_cast<int64_t>(values.size()) / rows});
}
ConstTensorView Matrix(const Floats& values, int64_t rows) {
  return Reshaped(ViewOf(values),
                  {rows, static_cast<int64_t>(values.size()) / rows});
}

// A problem of each step; every call of Run makes all results anew.
struct Concrete {
  ConcreteProblem problem;
  std::vector<int32_t> starts;
  Floats log_alpha, dgates;
  Doubles noise;
  bool drawn = true;
  float penalty = 0.25f;
  Floats gates, slopes, dlog_alpha;
  Doubles open;

  explicit Concrete(Rng& rng) : starts(Starts(rng)) {
    const int64_t heads = 1 + static_cast<int64_t>(rng.Below(9));
    log_alpha = Random(heads, rng);
    dgates = Random(tokens() * heads, rng);
    noise = Uniform(sequences() * heads, rng);
    drawn = rng.Below(3) > 0;
  }
  int64_t tokens() const { return starts.back(); }
  int64_t sequences() const { return static_cast<int64_t>(starts.size()) - 1; }

  Doubles Run(Context& context) {
    gates.assign(dgates.size(), 9);
    slopes.assign(noise.size(), 9);
    open.assign(log_alpha.size(), 9);
    dlog_alpha.assign(log_alpha.size(), 1);
    const int64_t heads = static_cast<int64_t>(log_alpha.size());
    Mirror at(context);
    ConcreteArgs args = {.log_alpha = at(ViewOf(std::as_const(log_alpha))),
                         .starts = at(ViewOf(std::as_const(starts))),
                         .gates = at(Matrix(gates, tokens())),
                         .slopes = at(Matrix(slopes, sequences())),
                         .open = at(ViewOf(open))};
    if (drawn) {
      args.noise =
          at(Reshaped(ViewOf(std::as_const(noise)), {sequences(), heads}));
    }
    ConcreteForward(context, problem, args);
    ConcreteBackward(
        context, problem, args,
        {at(std::as_const(*this).Dgates()), penalty, at(ViewOf(dlog_alpha))});
    at.Back();
    Doubles all(gates.begin(), gates.end());
    all.insert(all.end(), slopes.begin(), slopes.end());
    all.insert(all.end(), open.begin(), open.end());
    all.insert(all.end(), dlog_alpha.begin(), dlog_alpha.end());
    return all;
  }
  ConstTensorView Dgates() const { return Matrix(dgates, tokens()); }
};

struct Route {
  RouteProblem problem;
  int64_t tokens, heads;
  Floats logits, dgates;
  float balance = 0.5f;
  Floats routes, gates, dlogits;
  Doubles chosen, mean;

  explicit Route(Rng& rng) {
    problem.shared = static_cast<int64_t>(rng.Below(3));
    const int64_t routed = 1 + static_cast<int64_t>(rng.Below(8));
    heads = problem.shared + routed;
    problem.active =
        problem.shared +
        static_cast<int64_t>(rng.Below(static_cast<uint64_t>(routed + 1)));
    tokens = 1 + static_cast<int64_t>(rng.Below(200));
    logits = Random(tokens * (heads + (problem.shared > 0 ? 2 : 0)), rng);
    dgates = Random(tokens * heads, rng);
  }

  Doubles Run(Context& context) {
    routes = logits;
    gates.assign(dgates.size(), 9);
    dlogits.assign(logits.size(), 9);
    chosen.assign(heads - problem.shared, 9);
    mean.assign(heads - problem.shared, 9);
    Mirror at(context);
    const RouteArgs args = {.routes = at(Matrix(routes, tokens)),
                            .gates = at(Matrix(gates, tokens)),
                            .chosen = at(ViewOf(chosen)),
                            .mean = at(ViewOf(mean))};
    RouteForward(context, problem, args);
    RouteBackward(context, problem, args,
                  {at(Matrix(std::as_const(dgates), tokens)), balance,
                   at(Matrix(dlogits, tokens))});
    at.Back();
    Doubles all(routes.begin(), routes.end());
    all.insert(all.end(), gates.begin(), gates.end());
    all.insert(all.end(), chosen.begin(), chosen.end());
    all.insert(all.end(), mean.begin(), mean.end());
    all.insert(all.end(), dlogits.begin(), dlogits.end());
    return all;
  }
};

struct Span {
  SpanProblem problem;
  Floats spans, dtable;
  float penalty = 0.75f;
  Floats table, dspans;

  explicit Span(Rng& rng) {
    problem = {1 + static_cast<int64_t>(rng.Below(9)),
               static_cast<int64_t>(rng.Below(20)),
               static_cast<int64_t>(rng.Below(25))};
    spans = Random(1 + static_cast<int64_t>(rng.Below(6)), rng);
    dtable = Random(Heads() * (2 * problem.reach + 1), rng);
  }
  int64_t Heads() const { return static_cast<int64_t>(spans.size()); }

  Doubles Run(Context& context) {
    table.assign(dtable.size(), 9);
    dspans.assign(spans.size(), 1);
    Mirror at(context);
    const ConstTensorView there = at(ViewOf(std::as_const(spans)));
    SpanForward(context, problem, there, at(Matrix(table, Heads())));
    SpanBackward(context, problem, there,
                 {at(Matrix(std::as_const(dtable), Heads())), penalty,
                  at(ViewOf(dspans))});
    at.Back();
    Doubles all(table.begin(), table.end());
    all.insert(all.end(), dspans.begin(), dspans.end());
    return all;
  }
};

// The rest: gates in use.
struct Use {
  std::vector<int32_t> starts;
  int64_t heads, dim = 5;
  Floats x, factors, outer, replacement;
  Floats y, plain, product, share;
  std::vector<int32_t> active;

  explicit Use(Rng& rng) : starts(Starts(rng)) {
    heads = 1 + static_cast<int64_t>(rng.Below(9));
    const int64_t tokens = starts.back();
    x = Gates(tokens * heads, rng);
    factors = Random((static_cast<int64_t>(starts.size()) - 1) * heads, rng);
    // Heads that no sequence uses, and some products of 1.
    const size_t closed = rng.Below(heads);
    for (size_t i = closed; i < factors.size(); i += heads) factors[i] = 0;
    outer = Gates(heads, rng);
    x[0] = outer[0] = 1;
    replacement = Random(tokens * heads * dim, rng);
  }

  Doubles Run(Context& context) {
    const int64_t tokens = starts.back();
    const Shape shape = {1, tokens, heads};
    y.assign(x.size(), 9);
    plain = product = y;
    share.assign(replacement.size(), 9);
    active.assign(heads, 9);
    Mirror at(context);
    const ConstTensorView begins = at(ViewOf(std::as_const(starts)));
    const ConstTensorView by = at(Matrix(
        std::as_const(factors), static_cast<int64_t>(starts.size()) - 1));
    const TensorView gated = at(Matrix(y, tokens));
    GateSequences(context, begins, by, at(Matrix(std::as_const(x), tokens)),
                  gated);
    GateSequences(context, begins, by, {}, at(Matrix(plain, tokens)));
    MarkActive(context, gated, at(ViewOf(active)));
    // μ with its heads outermost, f the same for every token.
    const ConstTensorView mu = Transposed(
        Reshaped(ViewOf(std::as_const(replacement)), {1, heads, tokens, dim}),
        1, 2);
    ComposeGates(
        context,
        {.own = at(Reshaped(ViewOf(std::as_const(x)), shape)),
         .outer = at(Broadcast(ViewOf(std::as_const(outer)), shape)),
         .replacement = at(mu),
         .product = at(Reshaped(ViewOf(product), shape)),
         .share = at(Reshaped(ViewOf(share), {1, tokens, heads, dim}))});
    at.Back();
    Doubles all(y.begin(), y.end());
    all.insert(all.end(), plain.begin(), plain.end());
    all.insert(all.end(), active.begin(), active.end());
    all.insert(all.end(), product.begin(), product.end());
    all.insert(all.end(), share.begin(), share.end());
    return all;
  }
};

template <typename Trial>
void ExpectAgreement(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  for (int round = 0; round < 30; ++round) {
    Trial trial(rng);
    Context reference({1, "gate:reference"});
    const Doubles truth = trial.Run(reference);
    for (const auto& entry : GateImplementations().entries) {
      SCOPED_TRACE(entry.name);
      Doubles before;
      for (const int threads : {1, 3}) {
        const auto context = ContextFor("gate", entry.name, threads);
        if (!context) break;
        const Doubles found = trial.Run(*context);
        ASSERT_EQ(found.size(), truth.size());
        for (size_t i = 0; i < found.size(); ++i) {
          if (found[i] == truth[i]) continue;  // −∞, too
          ASSERT_NEAR(found[i], truth[i],
                      1e-4 * std::max(1.0, std::abs(truth[i])))
              << "round " << round << " result " << i;
        }
        if (!before.empty()) {
          ASSERT_EQ(found, before);
        }
        before = found;
      }
    }
  }
}

TEST(Gate, EveryImplementationAgreesWithTheReferenceOnAnyThreads) {
  ExpectAgreement<Concrete>(20265);
  ExpectAgreement<Route>(20266);
  ExpectAgreement<Span>(20267);
  ExpectAgreement<Use>(20268);
}

// The slope of loss() by `value`.
double Slope(float& value, double h, const std::function<double()>& loss) {
  const float middle = value;
  value = middle + static_cast<float>(h);
  const double above = value, up = loss();
  value = middle - static_cast<float>(h);
  const double below = value, down = loss();
  value = middle;
  return (up - down) / (above - below);
}

double Dot(const Floats& a, const Floats& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

TEST(Gate, TheReferencesGradientsAreSlopes) {
  Rng rng(12);
  Context context({1, "gate:reference"});
  for (int round = 0; round < 5; ++round) {
    Concrete c(rng);
    c.Run(context);
    const Floats dlog_alpha = c.dlog_alpha;
    for (size_t h = 0; h < c.log_alpha.size(); ++h) {
      const double slope = Slope(c.log_alpha[h], 1e-3, [&] {
        c.Run(context);
        return Dot(c.gates, c.dgates) +
               c.penalty * std::accumulate(c.open.begin(), c.open.end(), 0.0);
      });
      // It was 1 before; a gate may shut or open on the way.
      EXPECT_NEAR(dlog_alpha[h] - 1, slope, 0.02 * (1 + std::abs(slope)));
    }
  }
  for (int round = 0; round < 5; ++round) {
    Route r(rng);
    r.tokens = std::min<int64_t>(r.tokens, 4);
    r.logits.resize(r.tokens * (r.heads + (r.problem.shared > 0 ? 2 : 0)));
    r.dgates.resize(r.tokens * r.heads);
    r.Run(context);
    const Floats dlogits = r.dlogits;
    const Doubles chosen = r.chosen;
    for (size_t i = 0; i < r.logits.size(); ++i) {
      const double slope = Slope(r.logits[i], 1e-3, [&] {
        r.Run(context);
        return Dot(r.gates, r.dgates) +
               r.balance * std::inner_product(r.mean.begin(), r.mean.end(),
                                              chosen.begin(), 0.0);
      });
      EXPECT_NEAR(dlogits[i], slope, 2e-2 * (1 + std::abs(slope)));
    }
  }
}

TEST(Gate, GatesOnTopOfGatesGiveWhatBothWouldInTurn) {
  Context context({1, ""});
  Rng rng(8);
  Use use(rng);
  use.Run(context);
  const int64_t tokens = use.starts.back();
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < use.heads; ++h) {
      const int64_t i = t * use.heads + h;
      const float f = use.outer[h], g = use.x[i], out = 2;
      if (f * g == 1) continue;
      for (int64_t e = 0; e < use.dim; ++e) {
        const float mu = use.replacement[(h * tokens + t) * use.dim + e];
        const float wanted = f * (g * out) + (1 - f) * mu;
        const float found = use.product[i] * out +
                            (1 - use.product[i]) * use.share[i * use.dim + e];
        EXPECT_NEAR(found, wanted, 1e-4 * (1 + std::abs(wanted)));
      }
    }
  }
  EXPECT_EQ(use.product[0], 1);
  EXPECT_EQ(use.share[0], 0);
}

}  // namespace
}  // namespace headwise::gate_test
