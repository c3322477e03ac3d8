// Small models for the tests of this folder: the conformance checkpoints of
// every family, with weights that a test may change, and a random Llama of any
// depth.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "headwise/heads/importance/objective.h"
#include "headwise/model/model.h"

namespace headwise {

using WeightMap = std::map<std::string, Tensor>;

// tests/conformance/goldens/NAME: width 32, 2 layers of 4 heads, 64 tokens.
std::unique_ptr<Model> GoldenModel(
    const std::string& name,
    const std::function<void(WeightMap&)>& change = [](WeightMap&) {});

struct RandomLlama {
  int64_t layers = 12;
  int64_t width = 64;
  int64_t heads = 4;
  int64_t hidden = 176;
  int64_t vocabulary = 96;
};
std::unique_ptr<Model> MakeRandomLlama(const RandomLlama& shape);

// Texts of random tokens, not all of one length.
std::vector<TextExample> RandomExamples(int64_t count, int64_t length,
                                        int64_t vocabulary, uint64_t seed);

}  // namespace headwise
