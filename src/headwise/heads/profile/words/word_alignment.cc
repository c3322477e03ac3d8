// IBM Model 1. Door: word_alignment.h.
#include "headwise/heads/profile/words/word_alignment.h"

namespace headwise {
namespace {

constexpr uint32_t kEmptyWord = 0;

uint64_t Key(uint32_t source, uint32_t target) {
  return uint64_t{source} << 32 | target;
}

// A sentence pair as places in the table: row by row, target × (source + 1).
struct Cells {
  size_t targets = 0;
  std::vector<uint32_t> sources;  // with the empty word first
  std::vector<uint32_t> places;
};

}  // namespace

WordAligner::WordAligner(std::span<const WordPair> pairs, int iterations) {
  sources_.emplace("", kEmptyWord);
  const auto id = [](Ids& ids, const std::string& word) {
    return ids.emplace(word, static_cast<uint32_t>(ids.size())).first->second;
  };
  std::vector<Cells> all;
  all.reserve(pairs.size());
  std::vector<uint32_t> source_of_place;
  for (const WordPair& pair : pairs) {
    Cells& cells = all.emplace_back();
    cells.targets = pair.target.size();
    cells.sources.push_back(kEmptyWord);
    for (const std::string& word : pair.source) {
      cells.sources.push_back(id(sources_, word));
    }
    for (const std::string& word : pair.target) {
      const uint32_t target = id(targets_, word);
      for (const uint32_t source : cells.sources) {
        const auto next = static_cast<uint32_t>(source_of_place.size());
        const auto [place, fresh] = places_.emplace(Key(source, target), next);
        if (fresh) source_of_place.push_back(source);
        cells.places.push_back(place->second);
      }
    }
  }
  table_.assign(source_of_place.size(), 1.0);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    std::vector<double> counts(table_.size(), 0.0);
    for (const Cells& cells : all) {
      const size_t width = cells.sources.size();
      for (size_t t = 0; t < cells.targets; ++t) {
        const uint32_t* row = cells.places.data() + t * width;
        double sum = 0;
        for (size_t s = 0; s < width; ++s) sum += table_[row[s]];
        for (size_t s = 0; s < width; ++s) {
          counts[row[s]] += table_[row[s]] / sum;
        }
      }
    }
    std::vector<double> totals(sources_.size(), 0.0);
    for (size_t p = 0; p < counts.size(); ++p) {
      totals[source_of_place[p]] += counts[p];
    }
    for (size_t p = 0; p < counts.size(); ++p) {
      table_[p] = counts[p] / totals[source_of_place[p]];
    }
  }
}

double WordAligner::At(uint32_t source, uint32_t target) const {
  const auto place = places_.find(Key(source, target));
  return place == places_.end() ? 0 : table_[place->second];
}

double WordAligner::Probability(std::string_view source,
                                std::string_view target) const {
  const auto s = sources_.find(std::string(source));
  const auto t = targets_.find(std::string(target));
  if (s == sources_.end() || t == targets_.end()) return 0;
  return At(s->second, t->second);
}

std::vector<int32_t> WordAligner::Links(const WordPair& pair) const {
  std::vector<int32_t> links;
  for (const std::string& target : pair.target) {
    double best = Probability("", target);
    int32_t link = -1;
    for (size_t s = 0; s < pair.source.size(); ++s) {
      const double p = Probability(pair.source[s], target);
      if (p > best) {
        best = p;
        link = static_cast<int32_t>(s);
      }
    }
    links.push_back(link);
  }
  return links;
}

}  // namespace headwise
