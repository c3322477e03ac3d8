// Linear probes: how much of a label can be told from the states of a model
// after each of its layers, by a classifier trained on some windows and judged
// on others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/model/model.h"
#include "headwise/train/batch.h"

namespace headwise {

inline constexpr int32_t kNoLabel = -1;

// One label a token of a batch; kNoLabel: it is neither learned nor judged.
struct ProbeLabels {
  std::string name;
  int64_t classes = 0;
  std::vector<int32_t> train, test;
};

struct ProbeScores {
  // Shares told right, after 0 … layers layers.
  std::vector<double> right;
  double chance = 0;  // of the class that is most frequent in training

  // The first depth at which nine tenths of the gain from chance to the best
  // are there.
  int64_t DepthOfGain() const;
  double best() const;
};

// A ridge classifier for each depth and each kind of label, on all threads of
// `context`; the model runs on its device.
std::vector<ProbeScores> ProbeLayers(Context& context, const Model& model,
                                     const TrainBatch& train,
                                     const TrainBatch& test,
                                     const std::vector<ProbeLabels>& labels);

// The token so many places on (−1: before; 1: after) where it is one of the
// `classes` most frequent ones of the training batch.
ProbeLabels NeighbourLabels(std::string name, const TrainBatch& train,
                            const TrainBatch& test, int64_t places,
                            int64_t classes);

}  // namespace headwise
