// The passkey task. Door: passkey.h.
#include "headwise/study/support/passkey.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "headwise/cache.h"
#include "headwise/model/head_ref.h"
#include "headwise/observation.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/runtime/session.h"

namespace headwise {
namespace {

constexpr int32_t kPasskeyBos = 0, kFirstWord = 1;
constexpr int64_t kLongestKey = 16;  // of lessons
constexpr int64_t kTogether = 25;    // texts of one session

struct Drawn {
  std::vector<int32_t> text;  // <bos> and words that are not of the key
  std::vector<int32_t> key;
};
Drawn Draw(const PasskeyTask& task, int64_t length, int64_t key, Rng& rng) {
  std::vector<int32_t> words(task.words);
  std::iota(words.begin(), words.end(), kFirstWord);
  for (int64_t i = 0; i < key; ++i) {
    std::swap(words[i], words[rng.Between(i, task.words - 1)]);
  }
  Drawn drawn{{kPasskeyBos}, {words.begin(), words.begin() + key}};
  while (std::ssize(drawn.text) < length) {
    drawn.text.push_back(words[rng.Between(key, task.words - 1)]);
  }
  return drawn;
}

// A quarter of a text's length of a few words over and over, all of which but
// the first round are predicted: what brings forth heads that find earlier
// copies soonest (study emergence).
MadeSequence Chant(const PasskeyTask& task, Rng& rng) {
  const int64_t length = task.length / 4;
  const int64_t period = rng.Between(length / 8, length * 7 / 16);
  const Drawn drawn = Draw(task, 1, period, rng);
  std::vector<int32_t> text = drawn.text;
  for (int64_t i = 0; i < length; ++i) text.push_back(drawn.key[i % period]);
  MadeSequence chant = NextToken(text);
  std::fill_n(chant.targets.begin(), period + 1, kIgnoreTarget);
  return chant;
}

void Write(std::span<const int32_t> key, int64_t at,
           std::vector<int32_t>& text) {
  std::copy(key.begin(), key.end(), text.begin() + at);
}

// Largest keys of the rows that are about to tell a word.
class LargestKeys : public RunHooks {
 public:
  struct Case {
    int64_t row = 0;  // of the batch
    int32_t key = 0;  // in its sequence
  };
  explicit LargestKeys(std::vector<Case> cases) : cases_(std::move(cases)) {}

  const std::vector<double>& shares() const { return shares_; }

  void BeforeAttention(const AttentionSite& /*site*/,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override {
    argmax_ = Tensor(DType::kI32, {1, problem.heads, args.q.shape[1]});
    observation_.rows.argmax = argmax_.view();
    args.observation = &observation_;
  }
  void AfterAttention(const AttentionSite& /*site*/,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override {
    for (int64_t h = 0; h < problem.heads; ++h) {
      const int32_t* of = argmax_.As<int32_t>() + h * args.q.shape[1];
      double found = 0;
      for (const Case& one : cases_) found += of[one.row] == one.key ? 1 : 0;
      shares_.push_back(found / static_cast<double>(cases_.size()));
    }
  }

 private:
  std::vector<Case> cases_;
  std::vector<double> shares_;
  Observation observation_;
  Tensor argmax_;
};

// The likeliest token of each row of logits [rows, vocabulary].
std::vector<int32_t> Likeliest(Context& context, const Tensor& logits) {
  const std::vector<float> all = ToVector<float>(context, logits.view());
  const int64_t classes = logits.shape(1);
  std::vector<int32_t> best;
  for (int64_t r = 0; r < logits.shape(0); ++r) {
    const auto row = all.begin() + r * classes;
    best.push_back(
        static_cast<int32_t>(std::max_element(row, row + classes) - row));
  }
  return best;
}

}  // namespace

double PasskeyTask::chance() const {
  return std::pow(static_cast<double>(words), 1 - static_cast<double>(key));
}

MadeSequence PasskeyTask::Lesson(Rng& rng) const {
  if (rng.Uniform() < 0.5) return Chant(*this, rng);
  const int64_t all = rng.Between(length / 6, length);
  const int64_t block = rng.Between(key, std::min(kLongestKey, all / 4));
  Drawn drawn = Draw(*this, all, block, rng);
  // Asked at the end of the text, and in half of the texts before, too.
  std::vector<int64_t> asked = {all - block};
  if (rng.Uniform() < 0.5) {
    const int64_t slot = block + key;
    for (int64_t at = all / 2; at + slot <= all - block; at += slot) {
      asked.push_back(at + rng.Between(0, slot - block));
    }
  }
  Write(drawn.key, rng.Between(1, all / 2 - block), drawn.text);
  for (const int64_t at : asked) Write(drawn.key, at, drawn.text);
  MadeSequence lesson = NextToken(drawn.text);
  std::fill(lesson.targets.begin(), lesson.targets.end(), kIgnoreTarget);
  for (const int64_t at : asked) {
    std::copy(drawn.key.begin() + 1, drawn.key.end(),
              lesson.targets.begin() + at);
  }
  return lesson;
}

std::vector<Passkey> HidePasskeys(const PasskeyTask& task, uint64_t seed,
                                  int64_t count) {
  std::vector<Passkey> passkeys;
  for (int64_t i = 0; i < count; ++i) {
    Rng rng(seed, static_cast<uint64_t>(i));
    Drawn drawn = Draw(task, task.length - task.key + 1, task.key, rng);
    const int64_t place = rng.Between(1, task.length / 2 - task.key);
    Write(drawn.key, place, drawn.text);
    drawn.text.back() = drawn.key[0];
    passkeys.push_back({std::move(drawn.text), std::move(drawn.key), place});
  }
  return passkeys;
}

std::vector<double> RetrievalOf(Context& context, const Model& model,
                                std::span<const Passkey> passkeys) {
  std::vector<LargestKeys::Case> cases;
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;
  for (const Passkey& one : passkeys) {
    const int64_t start = std::ssize(ids);
    ids.insert(ids.end(), one.prompt.begin(), one.prompt.end());
    for (int64_t i = 1; i < std::ssize(one.key); ++i) {
      cases.push_back(
          {std::ssize(ids) - 1, static_cast<int32_t>(one.place + i)});
      ids.push_back(one.key[i]);
    }
    lengths.push_back(std::ssize(ids) - start);
  }
  LargestKeys hooks(std::move(cases));
  ForwardToLastAttention(context, model,
                         {.ids = ids, .lengths = lengths, .hooks = &hooks});
  return hooks.shares();
}

ToldKeys TellKeys(Context& context, const Model& model,
                  std::span<const Passkey> passkeys, const KvPolicy* policy) {
  ToldKeys told;
  for (size_t begin = 0; begin < passkeys.size(); begin += kTogether) {
    const auto some = passkeys.subspan(
        begin, std::min<size_t>(kTogether, passkeys.size() - begin));
    const int64_t key = std::ssize(some[0].key);
    const int64_t length = std::ssize(some[0].prompt) + key - 2;
    Session session(
        context, model,
        {.sequences = std::ssize(some), .capacity = length, .policy = policy});
    std::vector<int32_t> feed;
    for (const Passkey& one : some) {
      feed.insert(feed.end(), one.prompt.begin(), one.prompt.end());
    }
    std::vector<bool> right(some.size(), true);
    for (int64_t i = 1; i < key; ++i) {
      feed = Likeliest(context, session.Feed(feed));
      for (size_t s = 0; s < some.size(); ++s) {
        right[s] = right[s] && feed[s] == some[s].key[i];
      }
    }
    told.share +=
        static_cast<double>(std::count(right.begin(), right.end(), true));
    told.bytes = session.cache_bytes();
  }
  told.share /= static_cast<double>(passkeys.size());
  return told;
}

}  // namespace headwise
