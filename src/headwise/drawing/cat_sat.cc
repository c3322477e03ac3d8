// The pictures that texts about attention draw. Door: pictures.h.
#include "headwise/drawing/pictures.h"

#include <algorithm>
#include <string>
#include <utility>

namespace headwise {
namespace {

const std::vector<std::string>& Words() {
  static const std::vector<std::string> words = {"The", "cat", "sat",
                                                 "on",  "the", "mat"};
  return words;
}

// Rows divided by their sums.
HeatMap Normalised(HeatMap map) {
  const size_t columns = map.columns.size();
  for (size_t r = 0; r < map.rows.size(); ++r) {
    double sum = 0;
    for (size_t c = 0; c < columns; ++c) sum += map.values[r * columns + c];
    for (size_t c = 0; c < columns; ++c) map.values[r * columns + c] /= sum;
  }
  return map;
}

// A 5 × 5 picture of a positional head.
HeatMap Grid(std::string title, std::vector<double> values) {
  const std::vector<std::string> places = {"1", "2", "3", "4", "5"};
  return Normalised({std::move(title), places, places, std::move(values)});
}

HeatMap OnSentence(std::string title, const std::string& word,
                   std::vector<double> values) {
  const auto at = std::find(Words().begin(), Words().end(), word);
  return Normalised({std::move(title),
                     {word},
                     Words(),
                     std::move(values),
                     static_cast<size_t>(at - Words().begin())});
}

}  // namespace

std::vector<HeatMap> CatSatExamples() {
  HeatMap ideal{"Three ideal heads for \"sat\"",
                {"syntax", "position", "meaning"},
                Words(),
                {0, .8, 0, 0, 0, .2,    //
                 .3, .3, .2, .2, 0, 0,  //
                 0, .3, 0, 0, 0, .7},
                2};
  return {
      OnSentence("One head for \"sat\"", "sat", {.05, .35, .15, .10, .05, .30}),
      std::move(ideal),
      Grid("A previous-token head", {1, 0, 0, 0, 0,  //
                                     1, 1, 0, 0, 0,  //
                                     0, 1, 1, 0, 0,  //
                                     0, 0, 1, 1, 0,  //
                                     0, 0, 0, 1, 1}),
      Grid("A next-token head", {1, 1, 0, 0, 0,  //
                                 0, 1, 1, 0, 0,  //
                                 0, 0, 1, 1, 0,  //
                                 0, 0, 0, 1, 1,  //
                                 0, 0, 0, 0, 1}),
      Grid("A last-token head", {0, 0, 0, 0, 1,  //
                                 0, 0, 0, 0, 1,  //
                                 0, 0, 0, 0, 1,  //
                                 0, 0, 0, 0, 1,  //
                                 0, 0, 0, 0, 1}),
      OnSentence("Head 1: syntax", "sat", {0, 1, 0, 0, 0, 1}),
      OnSentence("Head 2: position", "sat", {0, 1, 1, 1, 0, 0}),
      OnSentence("Head 3: meaning", "cat", {0, 1, 0, 0, 0, 1}),
      OnSentence("Head 4: article", "cat", {1, 1, 0, 0, 0, 0})};
}

}  // namespace headwise
