// What studies of language train on: stories of a made-up grammar, in which
// there is something to learn for heads of several kinds, or the bytes of
// texts that were given.
//
//   the red dog near the old cats sees the old cats . the red dog …
//
// In a story every adjective belongs to one noun (to be found again where the
// pair was first read), and verbs agree with their subject, past the noun that
// stands between. A quarter of the sequences are random words repeated.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/heads/importance/objective.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/runtime/windows.h"
#include "headwise/study/support/tiny_model.h"

namespace headwise {

inline constexpr int64_t kStoryVocabulary = 52;
inline constexpr int64_t kStoryLength = 64;

// kStoryLength tokens, the first being <bos>.
std::vector<int32_t> MakeStory(Rng& rng);
// <bos> and a block of different random tokens, repeated to the end.
std::vector<int32_t> MakeRepeats(Rng& rng,
                                 int64_t vocabulary = kStoryVocabulary);

// The word of a token.
std::string StoryWord(int32_t token);
bool IsStoryAdjective(int32_t token);
bool IsStoryVerb(int32_t token);
bool IsStoryPlural(int32_t token);  // nouns and verbs

// Where to train and where to evaluate.
struct StudyText {
  std::string name;
  bool story = true;  // false: bytes
  int64_t vocabulary = kStoryVocabulary;
  MadeBatches::Maker plain;  // to train on: the text alone
  MadeBatches::Maker train;  // and with a quarter of repeats, where it is made
  MadeBatches::Maker held_out;
};

// The request's texts, else stories. Throws Error for texts that cannot be
// read, or of fewer than 4096 bytes.
StudyText OpenStudyText(const StudyRequest& request);

// What studies of induction train on: two of three sequences are repeats, the
// rest is plain. With fewer of them models this small form no induction
// heads within the steps of a quick study.
MadeBatches::Maker MostlyRepeats(const StudyText& text);

// Seeds of what is evaluated on: apart from every seed that is trained on.
inline constexpr uint64_t kHeldOutSeed = 1000;
inline constexpr uint64_t kSecondHeldOutSeed = 1001;

// How small models are trained on it.
TrainConfig StoryTraining(uint64_t seed, int64_t steps);
// The same for MostlyRepeats: from smaller weights induction forms sooner.
TrainConfig InductionTraining(uint64_t seed, int64_t steps);

// GPT-2's layout: learned positions, so that heads of any width see places
// equally well.
Json TinyGpt2(const TinyShape& shape);

// Llama's layout, for stories and no longer: rotary angles that tell places of
// a story apart, and probes of what the model was trained to read.
Json StoryLlama(TinyShape shape);

// `count` sequences of a maker, as heads' analyses take them.
std::vector<TokenWindow> StoryWindows(const MadeBatches::Maker& make,
                                      uint64_t seed, int64_t count);
std::vector<TextExample> StoryExamples(const MadeBatches::Maker& make,
                                       uint64_t seed, int64_t count);
// What every head does on `count` held-out sequences and on random repeats.
Profile StoryProfile(Context& context, const Model& model,
                     const StudyText& text, int64_t count);

// Logits [rows, vocabulary] after the first `layers` layers (−1: all).
Tensor StoryLogits(Context& context, const Model& model,
                   const TrainBatch& batch, RunHooks* hooks = nullptr,
                   int64_t layers = -1);
// What a model gives each target of a batch that is to be predicted.
std::vector<double> TargetProbabilities(Context& context, const Model& model,
                                        const TrainBatch& batch,
                                        RunHooks* hooks = nullptr);
// −mean ln p
double MeanLoss(std::span<const double> probabilities);

// Σ / n
double MeanOf(std::span<const double> values);

}  // namespace headwise
