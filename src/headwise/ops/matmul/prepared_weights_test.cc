// Forms of weights: whose they are, when they are made, what memory they may
// take, and that no result depends on any of it.
#include "headwise/ops/matmul/prepared_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/ops/matmul/cpu/half_dots.h"
#include "headwise/tensor/element.h"
#include "headwise/tensor/slice.h"

namespace headwise::prepared_weights_test {
namespace {

struct Form : WeightForm {
  explicit Form(size_t size) : size(size) {}
  size_t bytes() const override { return size; }
  size_t size;
};
struct OtherForm : Form {
  using Form::Form;
};
constexpr FormKey<Form> kFirst = {"first"}, kSecond = {"second"};
constexpr FormKey<OtherForm> kOther = {"other"};

const std::vector<float> kValues(6, 1.0f);

std::shared_ptr<PreparedWeights> Small(std::function<void()> release = {}) {
  return Prepare({View(kValues.data(), {2, 3})}, Operand::kTransposed,
                 std::move(release));
}

// The form of a key, of `bytes` bytes; `made` counts those that are made.
template <class F>
const F* Ask(const PreparedWeights& weights, const FormKey<F>& key,
             size_t bytes, int* made = nullptr) {
  return weights.Get(
      key, [&] { return bytes; },
      [&] {
        if (made != nullptr) ++*made;
        return std::make_unique<F>(bytes);
      });
}

TEST(PreparedWeights, KeepAFormForEachKey) {
  int releases = 0, made = 0;
  const auto weights = Small([&] { ++releases; });
  EXPECT_EQ(weights->Find(kFirst), nullptr);
  const Form* first = Ask(*weights, kFirst, 3, &made);
  EXPECT_EQ(weights->Find(kFirst), first);
  EXPECT_EQ(weights->Find(kSecond), nullptr);
  const Form* second = Ask(*weights, kSecond, 5, &made);
  const OtherForm* other = Ask(*weights, kOther, 7, &made);
  EXPECT_NE(first, second);
  EXPECT_EQ(Ask(*weights, kFirst, 3, &made), first);
  EXPECT_EQ(Ask(*weights, kSecond, 5, &made), second);
  EXPECT_EQ(Ask(*weights, kOther, 7, &made), other);
  EXPECT_EQ(made, 3);
  EXPECT_EQ(releases, 3);
  EXPECT_EQ(weights->bytes(), 15);
  EXPECT_EQ(PreparedBytes(*weights), 15);
  EXPECT_EQ(Small()->Find(kFirst), nullptr);  // of these weights only
}

TEST(PreparedWeights, MakeEachFormOnceHoweverManyThreadsAsk) {
  const auto weights = Small();
  std::atomic<int> made = 0;
  const auto ask = [&](const FormKey<Form>& key, size_t bytes) {
    return weights->Get(
        key, [&] { return bytes; },
        [&] {
          ++made;
          return std::make_unique<Form>(bytes);
        });
  };
  std::vector<const Form*> found(16);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      found[2 * t] = ask(kFirst, 3);
      found[2 * t + 1] = ask(kSecond, 5);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 2);
  for (int t = 0; t < 8; ++t) {
    EXPECT_EQ(found[2 * t]->size, 3);
    EXPECT_EQ(found[2 * t], weights->Find(kFirst));
    EXPECT_EQ(found[2 * t + 1], weights->Find(kSecond));
  }
}

TEST(PreparedWeights, MakeFormsUntilTheBudgetIsUsedUp) {
  const auto budget = std::make_shared<MemoryBudget>(10);
  std::vector<std::shared_ptr<PreparedWeights>> all = {Small(), Small(),
                                                       Small()};
  LimitPrepared(all, budget);
  EXPECT_NE(Ask(*all[0], kFirst, 4), nullptr);
  EXPECT_NE(Ask(*all[1], kFirst, 4), nullptr);
  int made = 0;
  EXPECT_EQ(Ask(*all[2], kFirst, 4, &made), nullptr);
  EXPECT_EQ(Ask(*all[2], kFirst, 4, &made), nullptr);
  EXPECT_EQ(made, 0);
  EXPECT_NE(Ask(*all[0], kFirst, 4), nullptr);   // was made before
  EXPECT_NE(Ask(*all[2], kSecond, 2), nullptr);  // fits
  EXPECT_EQ(budget->left(), 0);
  EXPECT_NE(Ask(*all[1], kOther, 0), nullptr);
  all[1].reset();
  EXPECT_EQ(budget->left(), 4);
  EXPECT_NE(Ask(*all[2], kFirst, 4), nullptr);
  all.clear();
  EXPECT_EQ(budget->left(), budget->bytes());
}

TEST(PreparedWeights, GiveBackWhatAFormThatFailedWouldHaveTaken) {
  const auto budget = std::make_shared<MemoryBudget>(10);
  const auto weights = Small();
  LimitPrepared({&weights, 1}, budget);
  const auto fail = [&] {
    return weights->Get(
        kFirst, [] { return size_t{8}; },
        []() -> std::unique_ptr<Form> { throw std::runtime_error("no"); });
  };
  for (int i = 0; i < 3; ++i) EXPECT_THROW(fail(), std::runtime_error);
  EXPECT_EQ(budget->left(), 10);
  EXPECT_NE(Ask(*weights, kFirst, 8), nullptr);
}

TEST(PreparedWeights, NeverTakeMoreThanTheBudgetFromManyThreads) {
  constexpr size_t kForms = 40, kBytes = 7, kFit = 17;
  const auto budget = std::make_shared<MemoryBudget>(kFit * kBytes + 3);
  std::vector<std::shared_ptr<PreparedWeights>> all;
  for (size_t i = 0; i < kForms; ++i) all.push_back(Small());
  LimitPrepared(all, budget);
  std::atomic<bool> over = false;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < kForms; ++i) {
        Ask(*all[(i + 11 * t) % kForms], kFirst, kBytes);
        size_t taken = 0;
        for (const auto& one : all) taken += one->bytes();
        if (taken > budget->bytes()) over = true;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(over);
  size_t made = 0;
  for (const auto& one : all) made += one->Find(kFirst) != nullptr ? 1 : 0;
  EXPECT_EQ(made, kFit);
  EXPECT_EQ(budget->left(), 3);
}

// `count` normal numbers, of a few that are made once.
std::vector<float> Normals(Rng& rng, int64_t count) {
  static const std::vector<float> kPool = [] {
    Rng own(3);
    std::vector<float> pool(10007);
    for (float& value : pool) value = static_cast<float>(own.Normal());
    return pool;
  }();
  std::vector<float> values(count);
  size_t at = rng.Below(kPool.size());
  for (float& value : values) value = kPool[at++ % kPool.size()];
  return values;
}

// Weights at some address, and products of them.
struct Weights {
  Weights(Rng& rng, int64_t n, int64_t k, DType type, Operand operand,
          int64_t parts, bool odd)
      : n(n), k(k), operand(operand), bytes(BytesOf(type, n * k) + 1, 0) {
    const bool plain = operand == Operand::kPlain;
    const std::vector<float> numbers = Normals(rng, n * k);
    std::string values(BytesOf(type, n * k), 0);
    const TensorView flat(values.data(), type, {n * k});
    for (int64_t i = 0; i < n * k; ++i) Write(flat, numbers[i], i);
    char* const at = bytes.data() + (odd ? 1 : 0);
    std::memcpy(at, values.data(), values.size());
    const ConstTensorView b(at, type, plain ? Shape{k, n} : Shape{n, k});
    for (int64_t i = 0; i < parts; ++i) {
      views.push_back(
          Slice(b, plain ? 1 : 0, n * i / parts, n * (i + 1) / parts));
    }
  }

  int64_t n, k;
  Operand operand;
  std::string bytes;
  std::vector<ConstTensorView> views;
};

struct Limited {
  explicit Limited(const Weights& of, size_t bytes = SIZE_MAX)
      : budget(std::make_shared<MemoryBudget>(bytes)),
        weights(Prepare(of.views, of.operand)) {
    if (bytes != SIZE_MAX) LimitPrepared({&weights, 1}, budget);
  }
  std::shared_ptr<MemoryBudget> budget;
  std::shared_ptr<PreparedWeights> weights;
};

std::vector<float> Product(Context& context, const PreparedWeights& weights,
                           const std::vector<float>& a, int64_t m, Store store,
                           const std::vector<float>& bias) {
  const int64_t n = weights.n(), k = weights.k();
  std::vector<float> c(m * n, 0.25f);
  MatmulArgs args;
  args.a = View(a.data(), {m, k});
  args.weights = &weights;
  if (!bias.empty()) args.bias = View(bias.data(), {n});
  args.c = View(c.data(), {m, n});
  Matmul(context, {.m = m, .n = n, .k = k, .store = store}, args);
  return c;
}

TEST(PreparedWeights, GiveTheSameBitsWithAndWithoutForms) {
  constexpr uint64_t kSeed = 38;
  Rng rng(kSeed);
  constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};
  Context one({1, ""}), three({3, ""});
  for (int round = 0; round < 120; ++round) {
    const bool large = round % 40 == 0;  // of more columns than fit at a time
    const int64_t m = round % 3 == 0 ? rng.Between(1, 2) : rng.Between(3, 40);
    const int64_t n = large ? rng.Between(1050, 1200) : rng.Between(1, 300);
    const int64_t k = large ? rng.Between(1000, 1100) : rng.Between(1, 200);
    const DType type = kTypes[rng.Below(3)];
    const Operand operand =
        rng.Below(2) != 0 ? Operand::kPlain : Operand::kTransposed;
    const Store store =
        rng.Below(2) != 0 ? Store::kOverwrite : Store::kAccumulate;
    const int64_t parts = rng.Between(1, std::min<int64_t>(3, n));
    const Weights weights(rng, n, k, type, operand, parts, rng.Below(4) == 0);
    std::vector<float> a = Normals(rng, m * k);
    if (rng.Below(8) == 0) a[0] = INFINITY;  // which has no halves
    const auto bias = Normals(rng, rng.Below(2) != 0 ? n : 0);
    const Limited kept(weights), none(weights, 0);
    const auto expected = Product(one, *kept.weights, a, m, store, bias);
    for (Context* context : {&one, &three}) {
      const auto found = Product(*context, *none.weights, a, m, store, bias);
      ASSERT_EQ(std::memcmp(found.data(), expected.data(),
                            found.size() * sizeof(float)),
                0)
          << "seed " << kSeed << ", round " << round << ": " << m << " × " << n
          << " × " << k << " of " << Name(type) << " in " << parts << " parts";
    }
    EXPECT_EQ(none.weights->bytes(), 0);
    EXPECT_EQ(none.budget->left(), 0);
  }
}

TEST(PreparedWeights, TakeAtMostWhatIsSaid) {
  Rng rng(5);
  Context context({2, ""});
  for (const DType type : {DType::kF32, DType::kF16}) {
    const Weights weights(rng, 70, 33, type, Operand::kTransposed, 2, false);
    const Limited kept(weights);
    for (const int64_t m : {1, 40}) {
      Product(context, *kept.weights, Normals(rng, m * 33), m,
              Store::kOverwrite, {});
    }
    const size_t most = MostPreparedBytes(*kept.weights);
    EXPECT_EQ(most, PreparedBytes(*kept.weights)) << Name(type);
    EXPECT_GE(most, 70 * 33 * sizeof(float));
    // As much as that is enough, and one byte less for one form only.
    const Limited enough(weights, most), less(weights, most - 1);
    for (const int64_t m : {1, 40}) {
      const std::vector<float> a = Normals(rng, m * 33);
      Product(context, *enough.weights, a, m, Store::kOverwrite, {});
      Product(context, *less.weights, a, m, Store::kOverwrite, {});
    }
    EXPECT_EQ(enough.budget->left(), 0);
    EXPECT_LT(PreparedBytes(*less.weights), most);
    const bool two = type == DType::kF16 && HasHalfDots();
    EXPECT_EQ(PreparedBytes(*less.weights) > 0, two) << Name(type);
  }
}

// Packed a part at a time, however large they are.
TEST(PreparedWeights, NeedLittleScratchWithoutForms) {
  Rng rng(6);
  Context context({1, ""});
  const int64_t n = 3000, k = 1000, m = 16;
  const Weights weights(rng, n, k, DType::kBF16, Operand::kTransposed, 1,
                        false);
  const Limited none(weights, 0);
  const std::vector<float> a = Normals(rng, m * k);
  context.ResetPeakScratch();
  Product(context, *none.weights, a, m, Store::kOverwrite, {});
  EXPECT_LT(context.PeakScratchBytes(), n * k * sizeof(float));
}

}  // namespace
}  // namespace headwise::prepared_weights_test
