// Pictures and tables as one self-contained HTML page: no network, no script,
// light and dark.
#pragma once

#include <string>
#include <vector>

#include "headwise/study/picture.h"
#include "headwise/study/study.h"

namespace headwise {

struct FigurePageContent {
  std::string title;
  std::string lead;  // under the title
  std::vector<Picture> pictures;
  std::vector<StudyTable> tables;
  std::vector<std::string> notes;  // paragraphs between both
  std::string command;             // which made it
};

std::string FigurePage(const FigurePageContent& content);

}  // namespace headwise
