// The comparison for machines. Door: similarity.h.
#include <cmath>

#include "headwise/heads/similarity/similarity.h"
#include "headwise/tensor/matrix.h"

namespace headwise {
namespace {

Json FourDecimals(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::round(value * 1e4) / 1e4;
}

Json Rows(const Tensor& matrix) {
  const Matrix a = FromTensor(matrix);
  Json rows = Json::array();
  for (int64_t r = 0; r < a.rows; ++r) {
    Json row = Json::array();
    for (int64_t c = 0; c < a.columns; ++c)
      row.push_back(FourDecimals(a(r, c)));
    rows.push_back(std::move(row));
  }
  return rows;
}

Json Pairs(const HeadSimilarity& s, const std::vector<HeadPair>& pairs) {
  Json list = Json::array();
  for (const HeadPair& pair : pairs) {
    list.push_back({{"a", ToString(s.heads[pair.a])},
                    {"b", ToString(s.heads[pair.b])},
                    {"bhattacharyya", FourDecimals(pair.bhattacharyya)},
                    {"jsd", FourDecimals(pair.jsd)},
                    {"cka", FourDecimals(pair.cka)},
                    {"ov_read", FourDecimals(pair.ov_read)},
                    {"ov_write", FourDecimals(pair.ov_write)}});
  }
  return list;
}

}  // namespace

Json ToJson(const HeadSimilarity& s) {
  Json heads = Json::array();
  for (const HeadRef& head : s.heads) heads.push_back(ToString(head));
  return {{"format", "headwise.similarity/1"},
          {"tokens", s.tokens},
          {"rows", s.rows},
          {"sampled_rows", s.sampled_rows},
          {"samples", s.samples},
          {"heads", std::move(heads)},
          {"groups", s.group},
          {"order", s.order},
          {"map", Rows(s.map)},
          {"twins", Pairs(s, s.twins)},
          {"closest", Pairs(s, s.closest)},
          {"bhattacharyya", Rows(s.bhattacharyya)},
          {"jsd", Rows(s.jsd)},
          {"cka", Rows(s.cka)},
          {"ov_read", Rows(s.ov_read)},
          {"ov_write", Rows(s.ov_write)}};
}

}  // namespace headwise
