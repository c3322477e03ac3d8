// What study layers tells of a model's layers, and its part on a model that
// was trained before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/model/model.h"
#include "headwise/study/study.h"
#include "headwise/study/support/probes.h"
#include "headwise/train/batch.h"

namespace headwise {

class Language;

struct BestHead {
  size_t head = 0;  // of the profile's
  double score = -1;
};
BestHead FindBestHead(const Profile& profile, const std::string& metric);

// The mean of a metric over the heads of each layer.
std::vector<double> LayerMeans(const Profile& profile,
                               const std::string& metric);

// Layers from the best previous-token head (on text) to the best induction
// head (on repeats).
double LayersToInduction(const Profile& profile);

// A table of the layers, and a picture of where heads look to the token before
// and where they complete repeats.
void TellLayers(const Profile& profile, const Ranking& ranking,
                const std::string& title, StudyResult& result);

// How the edge from the best previous-token head to the best induction head's
// keys ranks among all edges to keys, where the second is in a later layer.
// `whose` begins the figure's name.
void TellEdge(Context& context, const Model& model, const Profile& profile,
              const std::string& whose, StudyResult& result);

// Linear probes of the previous token, a longer link (whether a token stands
// inside a quotation) and the next token, learned on some held-out windows and
// judged on the next: the same for every model.
class LayerProbes {
 public:
  static constexpr int64_t kWindows = 24;  // to learn, and as many to judge
  static constexpr int64_t kClasses = 64;  // tokens that probes tell apart

  explicit LayerProbes(const Language& language);
  std::vector<ProbeScores> Read(Context& context, const Model& model) const;

 private:
  TrainBatch train_, test_;
  std::vector<ProbeLabels> labels_;
};

// Of every seed: what LayerProbes read, after and before training.
struct LayerScores {
  std::vector<std::vector<ProbeScores>> trained, fresh;
};
void JudgeLayerProbes(const LayerScores& found, StudyResult& result);
void ShowLayerProbes(const LayerScores& found, StudyResult& result);

// Adds what request.model shows, where it is given.
void TellShippedLayers(Context& context, const StudyRequest& request,
                       StudyResult& result);

}  // namespace headwise
