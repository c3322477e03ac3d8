#include "headwise/ops/matmul/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/ops/activation/activation.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/matmul/cpu/half_dots.h"
#include "headwise/ops/matmul/implementation.h"
#include "headwise/ops/test_device.h"
#include "headwise/ops/test_values.h"
#include "headwise/tensor/element.h"
#include "headwise/tensor/half.h"
#include "headwise/tensor/slice.h"

namespace headwise::matmul_test {
namespace {

// The beginning of a stream, of which each number is made once: every run of a
// case asks for them again.
std::vector<float> Random(int64_t count, uint64_t stream) {
  struct Stream {
    Rng rng;
    std::vector<float> values;
  };
  static std::map<uint64_t, Stream> known;
  auto& [rng, values] =
      known.try_emplace(stream, Stream{Rng(7, stream), {}}).first->second;
  while (std::ssize(values) < count) {
    values.push_back(static_cast<float>(rng.Normal()));
  }
  return {values.begin(), values.begin() + count};
}

std::string Bytes(const std::vector<float>& values, DType type) {
  std::string bytes(BytesOf(type, std::ssize(values)), 0);
  const TensorView view(bytes.data(), type,
                        {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) Write(view, values[i], i);
  return bytes;
}

// One product with its memory; rows of A and C have `gap` unused numbers.
struct Case {
  MatmulProblem problem;
  int64_t gap = 0;
  bool bias = false;
  bool prepared = false;
  bool host_weights = false;  // prepared weights lie on the host anyway
  int64_t parts = 1;          // of B
  bool inner = false;         // wanted, of an epilogue that may do without
  DType a_type = DType::kF32;
  DType b_type = DType::kF32;
  DType c_type = DType::kF32;
  DType bias_type = DType::kF32;

  int64_t ARows() const {
    return problem.a == Operand::kPlain ? problem.m : problem.k;
  }
  int64_t AColumns() const {
    return problem.a == Operand::kPlain ? problem.k : problem.m;
  }

  int64_t CColumns() const { return ColumnsOfC(problem); }

  // B cut into parts side by side.
  std::vector<ConstTensorView> Cut(const ConstTensorView& b) const {
    std::vector<ConstTensorView> cut;
    const int axis = problem.b == Operand::kPlain ? 1 : 0;
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t begin = problem.n * i / parts;
      cut.push_back(Slice(b, axis, begin, problem.n * (i + 1) / parts));
    }
    return cut;
  }

  // C and `inner`, gaps and all; nothing where the entry (null: the context's
  // choice) does not take it.
  std::vector<float> Run(Context& context,
                         const Implementation<MatmulCall>* entry) const {
    const auto& p = problem;
    auto a = Random(ARows() * (AColumns() + gap), 1);
    const float unit = 1.0f / std::sqrt(std::max<float>(1, p.k));
    for (float& value : a) value *= unit;
    const std::string a_bytes = Bytes(a, a_type);
    const std::string b_bytes = Bytes(Random(p.k * p.n, 2), b_type);
    const std::string offsets = Bytes(Random(p.n, 3), bias_type);
    const int64_t c_line = CColumns() + gap;
    std::string c = Bytes(Random(p.m * c_line, 4), c_type);
    std::string z = Bytes(Random(p.m * c_line, 5), c_type);
    Mirror at(context);
    MatmulArgs args;
    ConstTensorView a_view(a_bytes.data(), a_type, {ARows(), AColumns()});
    a_view.stride[0] = AColumns() + gap;
    args.a = at(a_view);
    const ConstTensorView b(
        b_bytes.data(), b_type,
        p.b == Operand::kPlain ? Shape{p.k, p.n} : Shape{p.n, p.k});
    const TensorView all(c.data(), c_type, {p.m, c_line});
    at(all);  // whole, so that gaps are seen to stay
    args.c = at(Columns(all, 0, CColumns()));
    const ConstTensorView bias_view(offsets.data(), bias_type, {p.n});
    if (bias) args.bias = at(bias_view);
    const TensorView all_inner(z.data(), c_type, {p.m, c_line});
    if (inner || p.epilogue == Epilogue::kGeluTanhBackward) {
      at(all_inner);
      args.inner = at(Columns(all_inner, 0, p.n));
    }
    const auto cut = Cut(prepared && host_weights ? b : at(b));
    std::shared_ptr<PreparedWeights> weights;
    if (prepared) {
      weights = Prepare(cut, p.b);
      args.weights = weights.get();
    } else if (parts > 1) {
      args.parts = cut;
    } else {
      args.b = cut[0];
    }
    if (entry == nullptr) {
      Matmul(context, p, args);
    } else if (const std::string why = entry->why_not({p, args}); why.empty()) {
      entry->run(context, {p, args});
    } else {
      return {};
    }
    at.Back();
    std::vector<float> values;
    for (const std::string* result : {&c, &z}) {
      const int64_t count = p.m * c_line;
      const ConstTensorView flat(result->data(), c_type, {count});
      for (int64_t i = 0; i < count; ++i) {
        values.push_back(static_cast<float>(Read(flat, i)));
      }
    }
    return values;
  }

  // What a result may differ, relative to the larger of 1 and itself: halves
  // are rounded on the way (B to A's type, a bias to C's), and C at the end.
  double Difference() const {
    // An operand that is rounded to the other's type: k errors of random signs.
    const double rounded =
        a_type == b_type ? 0 : std::max(Tolerance(a_type), Tolerance(b_type));
    const double terms = std::sqrt(static_cast<double>(problem.k));
    // C: once, and once more where a bias comes after the product.
    const double outer = c_type == DType::kF32 ? 2e-5 : 2 * Tolerance(c_type);
    // An activation may be of what was rounded, and steeper than 1; a gate
    // multiplies it with as large a number.
    const double after = problem.epilogue == Epilogue::kNone        ? 1
                         : problem.epilogue == Epilogue::kSiluGated ? 6
                                                                    : 2;
    return after * std::max(rounded * terms, outer);
  }
};

const Implementation<MatmulCall>& Reference() {
  return MatmulImplementations().entries.back();
}

// Of f32 and halves as the CPU takes them, or of any types that fit together.
Case RandomCase(Rng& rng, int round, bool any_types) {
  Case x;
  x.problem.m = rng.Between(1, round % 4 == 0 ? 150 : 20);
  x.problem.n = rng.Between(1, round % 5 == 0 ? 420 : 60);
  x.problem.k = rng.Between(round % 7 == 0 ? 0 : 1, 60);
  if (round % 20 == 0) x.problem.k = rng.Between(600, 1500);
  x.problem.a = rng.Below(2) ? Operand::kPlain : Operand::kTransposed;
  x.problem.b = rng.Below(2) ? Operand::kPlain : Operand::kTransposed;
  x.problem.store = rng.Below(2) ? Store::kOverwrite : Store::kAccumulate;
  x.gap = rng.Below(3);
  x.bias = rng.Below(2);
  x.prepared = rng.Below(2) && x.problem.k > 0;
  x.host_weights = rng.Below(2);
  if (rng.Below(3) == 0) x.parts = std::min<int64_t>(3, x.problem.n);
  const DType types[] = {DType::kF32, DType::kBF16, DType::kF16};
  x.b_type = types[rng.Below(3)];
  if (!any_types) return x;
  x.a_type = types[rng.Below(3)];
  if (rng.Below(2)) x.b_type = x.a_type;
  if (rng.Below(2)) x.c_type = x.a_type;
  if (rng.Below(2)) x.bias_type = x.c_type;
  if (rng.Below(2)) x.problem.k = (x.problem.k + 7) / 8 * 8;
  if (rng.Below(2)) x.gap = 8;
  const Precision precisions[] = {Precision::kBF16, Precision::kF16};
  if (rng.Below(4) == 0) x.problem.precision = precisions[rng.Below(2)];
  return x;
}

Case WithEpilogue(Case x, Rng& rng) {
  constexpr Epilogue kAll[] = {Epilogue::kGeluTanh, Epilogue::kGeluTanhBackward,
                               Epilogue::kSiluGated};
  x.problem.store = Store::kOverwrite;
  x.problem.epilogue = kAll[rng.Below(3)];
  x.inner = rng.Below(2);
  if (x.problem.epilogue == Epilogue::kGeluTanhBackward) x.bias = false;
  if (x.problem.epilogue == Epilogue::kSiluGated) {
    x.inner = false;
    x.problem.n += x.problem.n % 2;
  }
  if (rng.Below(2)) x.problem.n = (x.problem.n + 7) / 8 * 8;
  return x;
}

// Entries in contexts of their devices, but for the reference.
struct Contender {
  const Implementation<MatmulCall>* entry;
  std::unique_ptr<Context> context;
};
std::vector<Contender> Contenders() {
  std::vector<Contender> all;
  for (const auto& entry : MatmulImplementations().entries) {
    if (&entry == &Reference()) continue;
    auto context = ContextFor("matmul", entry.name);
    if (context) all.push_back({&entry, std::move(context)});
  }
  return all;
}

// Whether the entries agree with the reference on this product.
bool Agree(const Case& x, const std::vector<Contender>& contenders,
           double tolerance) {
  Context host({1, ""});
  std::vector<float> truth;  // when it is asked for
  for (const auto& [entry, context] : contenders) {
    const auto c = x.Run(*context, entry);
    if (c.empty()) continue;
    if (truth.empty()) truth = x.Run(host, &Reference());
    for (size_t i = 0; i < c.size(); ++i) {
      if (std::abs(c[i] - truth[i]) <=
          tolerance * std::max(1.0f, std::abs(truth[i]))) {
        continue;
      }
      ADD_FAILURE() << entry->name << " " << ToString(x.problem) << " of "
                    << Name(x.a_type) << ", " << Name(x.b_type) << " into "
                    << Name(x.c_type) << " at " << i << ": " << c[i] << ", not "
                    << truth[i];
      return false;
    }
    if (c != x.Run(*context, entry)) {
      ADD_FAILURE() << entry->name << " " << ToString(x.problem) << " twice";
      return false;
    }
  }
  return true;
}

TEST(Matmul, EveryImplementationAgreesWithTheReference) {
  const auto contenders = Contenders();
  Rng rng(11);
  for (int round = 0; round < 400; ++round) {
    const Case x = RandomCase(rng, round, /*any_types=*/false);
    ASSERT_TRUE(Agree(x, contenders, 2e-5)) << "round " << round;
  }
}

TEST(Matmul, EveryImplementationAgreesWithTheReferenceInAllTypes) {
  const auto contenders = Contenders();
  Rng rng(12);
  for (int round = 0; round < 300; ++round) {
    const Case x = RandomCase(rng, round, /*any_types=*/true);
    ASSERT_TRUE(Agree(x, contenders, x.Difference())) << "round " << round;
  }
}

TEST(Matmul, EveryImplementationAgreesWithTheReferenceInEpilogues) {
  const auto contenders = Contenders();
  Rng rng(13);
  for (int round = 0; round < 200; ++round) {
    const Case x = WithEpilogue(RandomCase(rng, round, true), rng);
    ASSERT_TRUE(Agree(x, contenders, x.Difference())) << "round " << round;
  }
}

// The same as the product, then the activation.
TEST(Matmul, TheReferencesEpiloguesAreThoseOfTheActivation) {
  Context host({1, ""});
  Case x;
  x.problem = {5, 7, 9};
  x.bias = true;
  const std::vector<float> z = x.Run(host, &Reference());
  x.problem.epilogue = Epilogue::kGeluTanh;
  x.inner = true;
  const std::vector<float> both = x.Run(host, &Reference());
  std::vector<float> y(35), dx(35);
  ActivationForward(host, {Activation::kGeluTanh},
                    {.x = View(z.data(), {5, 7}), .y = View(y.data(), {5, 7})});
  for (int i = 0; i < 35; ++i) {
    EXPECT_EQ(both[35 + i], z[i]);
    EXPECT_NEAR(both[i], y[i], 1e-5);
  }
  x.problem.epilogue = Epilogue::kNone;
  x.bias = x.inner = false;
  const std::vector<float> dy = x.Run(host, &Reference());
  x.problem.epilogue = Epilogue::kGeluTanhBackward;
  const std::vector<float> back = x.Run(host, &Reference());
  ActivationBackward(
      host, {Activation::kGeluTanh}, {.x = View(back.data() + 35, {5, 7})},
      {.dy = View(dy.data(), {5, 7}), .dx = View(dx.data(), {5, 7})});
  for (int i = 0; i < 35; ++i) EXPECT_NEAR(back[i], dx[i], 1e-5);
}

// A gate beside what it gates: the same as the product, then the activation.
TEST(Matmul, TheReferencesGateIsThatOfTheActivation) {
  Context host({1, ""});
  Case x;
  x.problem = {5, 14, 9};
  x.bias = true;
  const std::vector<float> both = x.Run(host, &Reference());
  x.problem.epilogue = Epilogue::kSiluGated;
  const std::vector<float> found = x.Run(host, &Reference());
  std::vector<float> y(35);
  const ConstTensorView in = View(both.data(), {5, 14});
  ActivationForward(host, {Activation::kSilu},
                    {.x = Columns(in, 0, 7),
                     .up = Columns(in, 7, 14),
                     .y = View(y.data(), {5, 7})});
  for (int i = 0; i < 35; ++i) EXPECT_NEAR(found[i], y[i], 1e-5) << i;
}

// What generating text asks of a device: few rows, long lines, several parts.
TEST(Matmul, FewRowsOfLongLinesAgreeWithTheReference) {
  const auto contenders = Contenders();
  for (const int64_t m : {1, 2, 3, 5, 8}) {
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      Case x;
      x.problem = {m, 207 + 7 * m, (m == 1 ? 2100 : 1024) + 3 * (m % 3),
                   Operand::kPlain, Operand::kTransposed};
      x.a_type = x.b_type = type;
      x.prepared = x.bias = true;
      x.host_weights = m % 2 == 0;
      x.parts = 1 + m % 6;
      // Rows of A begin at multiples of 16 bytes.
      x.gap = (8 - x.problem.k % 8) % 8;
      ASSERT_TRUE(Agree(x, contenders, 1e-4));
      // Weights that lie the other way are copied as lines.
      x.problem.b = Operand::kPlain;
      ASSERT_TRUE(Agree(x, contenders, 1e-4));
      x.problem.b = Operand::kTransposed;
      x.problem.epilogue = Epilogue::kGeluTanh;
      ASSERT_TRUE(Agree(x, contenders, 2e-4));
      x.problem.n += x.problem.n % 2;
      x.problem.epilogue = Epilogue::kSiluGated;
      x.parts = 1 + m % 4;
      ASSERT_TRUE(Agree(x, contenders, 4e-4));
    }
  }
}

// A small B is walked in tiles and a large one in strips, as memory likes it;
// a column's sum is the same.
TEST(Matmul, FewRowsGiveTheSameSumsHoweverLargeBIs) {
  constexpr int64_t kDepth = 64, kNarrow = 83, kWide = 2048;
  Context context({1, "matmul:cpu.few_rows"});
  const std::vector<float> b = Random(kDepth * kWide, 2);
  const ConstTensorView all(b.data(), DType::kF32, {kDepth, kWide});
  for (const int64_t m : {1, 2, 3, 7, 8}) {
    for (const Store store : {Store::kOverwrite, Store::kAccumulate}) {
      const std::vector<float> a = Random(m * kDepth, 1);
      const auto multiply = [&](int64_t n) {
        std::vector<float> c(m * n, 0.5f);
        const std::vector<float> bias = Random(n, 3);
        MatmulProblem problem = {m, n, kDepth};
        problem.store = store;
        MatmulArgs args;
        args.a = {a.data(), DType::kF32, {m, kDepth}};
        args.b = Columns(all, 0, n);
        args.c = {c.data(), DType::kF32, {m, n}};
        args.bias = {bias.data(), DType::kF32, {n}};
        Matmul(context, problem, args);
        return c;
      };
      const std::vector<float> narrow = multiply(kNarrow);
      const std::vector<float> wide = multiply(kWide);
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < kNarrow / 16 * 16; ++j) {
          ASSERT_EQ(narrow[i * kNarrow + j], wide[i * kWide + j])
              << m << " rows, " << i << ", " << j;
        }
      }
    }
  }
}

TEST(Matmul, TheReferenceRoundsOnceToTheTypeOfC) {
  Context host({1, ""});
  Case x;
  x.problem = {3, 5, 40};
  x.a_type = x.b_type = DType::kBF16;
  x.bias = true;
  const auto exact = x.Run(host, &Reference());
  x.c_type = DType::kBF16;
  const auto rounded = x.Run(host, &Reference());
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQ(rounded[i], FromBf16(ToBf16(exact[i]))) << i;
  }
}

// How C is cut into tasks follows the threads; what is added up does not.
TEST(Matmul, ResultsDoNotDependOnTheNumberOfThreads) {
  const MatmulProblem problems[] = {
      {150, 400, 900, Operand::kPlain, Operand::kTransposed},
      {150, 52, 900, Operand::kTransposed, Operand::kPlain},
      {12, 409, 70, Operand::kPlain, Operand::kPlain, Store::kAccumulate}};
  Context one({1, ""});
  for (const MatmulProblem& problem : problems) {
    Case x;
    x.problem = problem;
    const auto a = x.Run(one, nullptr);
    for (const int threads : {2, 3, 16}) {
      Context several({threads, ""});
      const auto b = x.Run(several, nullptr);
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0)
          << ToString(problem) << " with " << threads << " threads";
    }
  }
  Context three({3, ""});
  for (const Operand operand : {Operand::kPlain, Operand::kTransposed}) {
    Case x;
    x.problem = {3, 700, 300, Operand::kPlain, operand};
    x.b_type = DType::kF16;
    EXPECT_EQ(x.Run(one, nullptr), x.Run(three, nullptr));
  }
}

TEST(Matmul, HalvesFourLinesAtATimeAgreeWithTheReference) {
  if (!HasHalfDots()) GTEST_SKIP() << "no such instructions here";
  Rng rng(5);
  Context one({1, "matmul:cpu.half_rows"});
  Context three({3, "matmul:cpu.half_rows"});
  for (int round = 0; round < 60; ++round) {
    Case x;
    x.problem = {rng.Between(1, 2), rng.Between(1, 400), rng.Between(1, 300),
                 Operand::kPlain, Operand::kTransposed};
    x.problem.store = rng.Below(2) ? Store::kOverwrite : Store::kAccumulate;
    x.bias = rng.Below(2);
    x.gap = rng.Below(3);
    x.b_type = DType::kF16;
    x.prepared = true;
    const auto truth = x.Run(one, &Reference());
    const auto c = x.Run(one, nullptr);
    for (size_t i = 0; i < c.size(); ++i) {
      ASSERT_NEAR(c[i], truth[i], 2e-5 * std::max(1.0f, std::abs(truth[i])))
          << ToString(x.problem) << " at " << i;
    }
    EXPECT_EQ(c, x.Run(three, nullptr));
  }
}

TEST(Matmul, NothingToMultiplyGivesTheBias) {
  Context context({1, ""});
  Case x;
  x.problem = {3, 5, 0};
  x.bias = true;
  const auto c = x.Run(context, nullptr);
  const auto bias = Random(5, 3);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(c[i], bias[i % 5]);
}

TEST(Matmul, RefusesImpossibleArguments) {
  Context context({1, ""});
  std::vector<float> data(100);
  const auto refused = [&](const MatmulProblem& p, const MatmulArgs& args) {
    EXPECT_THROW(Matmul(context, p, args), Error);
  };
  MatmulArgs good;
  good.a = View(data.data(), {2, 3});
  good.b = View(data.data() + 10, {3, 4});
  good.c = View(data.data() + 30, {2, 4});
  const MatmulProblem p = {2, 4, 3};
  EXPECT_NO_THROW(Matmul(context, p, good));

  refused({-1, 4, 3}, good);
  MatmulProblem gelu = p;
  gelu.epilogue = Epilogue::kGeluTanh;
  EXPECT_NO_THROW(Matmul(context, gelu, good));
  gelu.store = Store::kAccumulate;
  refused(gelu, good);
  gelu = p;
  gelu.epilogue = Epilogue::kGeluTanhBackward;  // of what?
  refused(gelu, good);
  gelu.epilogue = Epilogue::kSiluGated;  // into C of half as many columns
  refused(gelu, good);
  MatmulArgs gated = good;
  gated.c = View(data.data() + 30, {2, 2});
  EXPECT_NO_THROW(Matmul(context, gelu, gated));
  gated.inner = View(data.data() + 60, {2, 2});
  refused(gelu, gated);
  MatmulArgs stray = good;
  stray.inner = View(data.data() + 60, {2, 4});
  refused(p, stray);
  refused({2, 4, 4}, good);
  MatmulArgs elsewhere = good;
  elsewhere.b.device = Device::Cuda();
  refused(p, elsewhere);
  MatmulArgs mixed = good;  // C is neither f32 nor as A
  mixed.c.type = DType::kBF16;
  refused(p, mixed);
  MatmulArgs bad = good;
  bad.c = View(data.data() + 12, {2, 4});  // inside B
  refused(p, bad);
  bad = good;
  bad.a.type = DType::kF64;
  refused(p, bad);
  bad = good;
  bad.b = {};
  refused(p, bad);
  bad = good;
  bad.a.stride = {6, 2};
  refused(p, bad);
  bad = good;
  bad.bias = View(data.data() + 50, {3});
  refused(p, bad);
  const auto other =
      Prepare({View(std::as_const(data).data(), {5, 4})}, Operand::kPlain);
  bad = good;
  bad.weights = other.get();
  refused(p, bad);
  const ConstTensorView parts[] = {good.b, good.b};
  bad = good;
  bad.parts = parts;
  refused(p, bad);
  EXPECT_THROW(Prepare({ConstTensorView()}, Operand::kPlain), Error);
}

TEST(Matmul, WeightsMayLieAtOddAddresses) {
  Context context({2, ""});
  const int64_t m = 20, n = 901, k = 13;  // more than is turned at a time
  const std::vector<float> values = Random(n * k, 3), a = Random(m * k, 4);
  std::vector<uint16_t> half(n * k);
  for (int64_t i = 0; i < n * k; ++i) half[i] = ToF16(values[i]);
  for (const Operand operand : {Operand::kPlain, Operand::kTransposed}) {
    const bool plain = operand == Operand::kPlain;
    for (const DType type : {DType::kF32, DType::kF16}) {
      const size_t bytes = BytesOf(type, n * k);
      const void* from = type == DType::kF32
                             ? static_cast<const void*>(values.data())
                             : static_cast<const void*>(half.data());
      std::vector<char> odd(bytes + 1);
      std::memcpy(odd.data() + 1, from, bytes);
      for (const int64_t rows : {int64_t{2}, m}) {
        const auto product = [&](const void* where) {
          int releases = 0;
          const ConstTensorView b(where, type, {plain ? k : n, plain ? n : k});
          const auto weights = Prepare({b}, operand, [&] { ++releases; });
          std::vector<float> c(rows * n);
          const MatmulArgs args = {.a = View(a.data(), {rows, k}),
                                   .weights = weights.get(),
                                   .c = View(c.data(), {rows, n})};
          for (int i = 0; i < 2; ++i) Matmul(context, {rows, n, k}, args);
          EXPECT_EQ(releases, PreparedBytes(*weights) > 0 ? 1 : 0);
          return c;
        };
        const auto found = product(odd.data() + 1), expected = product(from);
        for (size_t i = 0; i < found.size(); ++i) {
          ASSERT_NEAR(found[i], expected[i], 1e-5);
        }
      }
    }
  }
}

TEST(Matmul, ProductsLieOnTheContextsDevice) {
  for (const char* entry : {"cuda.lt", "cpu.f32"}) {
    const auto context = ContextFor("matmul", entry);
    if (!context) continue;
    Tensor a(*context, DType::kF32, {3, 4}), b(*context, DType::kF32, {4, 5});
    const Tensor c = MatrixProduct(*context, a, b);
    EXPECT_EQ(c.device(), context->device());
    EXPECT_EQ(ToHost(*context, c.view()).As<float>()[14], 0);
  }
}

TEST(Matmul, HonoursThePreferredImplementation) {
  Case x;
  x.problem = {4, 4, 4};
  Context reference({1, "matmul:reference"});
  EXPECT_EQ(x.Run(reference, nullptr), x.Run(reference, &Reference()));
  Context unknown({1, "matmul:nosuch"});
  EXPECT_THROW(x.Run(unknown, nullptr), Error);
}

}  // namespace
}  // namespace headwise::matmul_test
