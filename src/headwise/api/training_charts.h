// A training run in pictures: its losses, and what its heads do.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "headwise/drawing/svg.h"
#include "headwise/heads/importance/head_life.h"
#include "headwise/heads/roles/role_life.h"
#include "headwise/train/checkpoints.h"

namespace headwise {

// The losses so far; of many steps, means over equal stretches.
void WriteLossCurve(const std::filesystem::path& file,
                    const TrainingRecord& record);

// "A head's life": the strongest heads as lines, then the series of LifeMoment,
// heads in rows and steps in columns. `life` has at least one moment.
void WriteLifeChart(const std::filesystem::path& file,
                    const std::vector<LifeMoment>& life);

// How many heads have each role, the strongest head of each, and maps of every
// head's score. `life` has at least one moment.
void WriteRoleChart(const std::filesystem::path& file,
                    const std::vector<RoleMoment>& life);

// One map: a series of the moments.
struct LifePanel {
  std::string series;
  std::string title;
  std::string meaning;  // of full strength
  bool share = true;    // on a scale of at least a tenth, as a share
};

struct LifePicture {
  std::string title;
  std::string description;
  Drawing lines;                  // above the maps
  std::vector<LifePanel> panels;  // those that apply to no head are left out
};

// The common parts of both charts of heads. Every moment has all series of the
// panels.
void WriteLifePicture(const std::filesystem::path& file, LifePicture picture,
                      const std::vector<LifeMoment>& life);

// The life of the head that has most of a series at the end.
Series LifeOfStrongest(const std::vector<LifeMoment>& life,
                       const std::string& series, const std::string& name);

}  // namespace headwise
