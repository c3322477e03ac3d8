// "A head's life" as a picture: the strongest heads as lines, then heads in
// rows and steps of a training run in columns, one map a series.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "headwise/heads/importance/head_life.h"
#include "headwise/drawing/svg.h"

namespace headwise {

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

// `life` has at least one moment, and every moment all series of the panels.
void WriteLifePicture(const std::filesystem::path& file, LifePicture picture,
                      const std::vector<LifeMoment>& life);

// The life of the head that has most of a series at the end.
Series LifeOfStrongest(const std::vector<LifeMoment>& life,
                       const std::string& series, const std::string& name);

// The series of LifeMoment.
void WriteLifeChart(const std::filesystem::path& file,
                    const std::vector<LifeMoment>& life);

}  // namespace headwise
