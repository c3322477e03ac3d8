// Door: loss_table.h.
#include "headwise/heads/importance/loss_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "headwise/dist/pack.h"

namespace headwise {
namespace {

LossTable AllUnknown(size_t rows, size_t columns) {
  return {rows, std::vector<double>(columns,
                                    std::numeric_limits<double>::quiet_NaN())};
}

}  // namespace

std::string Packed(const LossTable& table) {
  dist::Packer to;
  for (const std::vector<double>& row : table) to.Put(row);
  return to.Take();
}

void Unpack(std::string_view bytes, LossTable& table) {
  dist::Unpacker from(bytes);
  for (std::vector<double>& row : table) {
    const std::vector<double> values = from.GetVector<double>();
    if (values.size() != row.size()) {
      throw dist::UnexpectedMessage(row.size(), values.size());
    }
    row = values;
  }
}

std::vector<size_t> MissingRows(const LossTable& columns) {
  std::vector<size_t> missing;
  for (size_t row = 0; row < columns.size(); ++row) {
    if (std::ranges::any_of(columns[row],
                            [](double value) { return std::isnan(value); })) {
      missing.push_back(row);
    }
  }
  return missing;
}

LossTable FillTable(const PassOptions& options, const TableWork& work) {
  const size_t all = work.ends.empty() ? 0 : work.ends.back();
  const auto first_of = [&](size_t part) {
    return part > 0 ? work.ends[part - 1] : 0;
  };
  const auto columns_of = [&](size_t part) {
    return AllUnknown(work.rows, work.ends[part] - first_of(part));
  };
  LossTable table = AllUnknown(work.rows, all), columns;
  size_t added = 0;  // parts
  PassWork pass_work;
  pass_work.stage = work.stage;
  for (size_t part = 0; part < work.ends.size(); ++part) {
    pass_work.sizes.push_back(
        static_cast<double>(work.ends[part] - first_of(part)));
  }
  pass_work.sum_on = SumOn::kAll;
  pass_work.name =
      fmt::format("{} [{}, {}]", work.name.empty() ? work.stage : work.name,
                  work.rows, all);
  pass_work.add = [&](std::string_view message) {
    LossTable part = columns_of(added);
    Unpack(message, part);
    const auto at = static_cast<std::ptrdiff_t>(first_of(added));
    for (size_t row = 0; row < part.size(); ++row) {
      std::ranges::copy(part[row], table[row].begin() + at);
    }
    ++added;
  };
  pass_work.pack = [&] {
    dist::Packer to;
    to.Put(added);
    to.Put(Packed(table));
    return to.Take();
  };
  pass_work.unpack = [&](std::string_view sum) {
    dist::Unpacker from(sum);
    added = from.Get<size_t>();
    Unpack(from.GetString(), table);
  };
  pass_work.open = [&] { return Packed(columns); };
  TextPass pass(options, std::move(pass_work));
  const auto tell = [&](double share) { pass.Tell(share); };
  pass.Run([&](size_t part, std::string_view begun) {
    columns = columns_of(part);
    if (!begun.empty()) Unpack(begun, columns);
    work.run(part, columns, tell);
    return Packed(columns);
  });
  return table;
}

std::vector<size_t> CutExamples(std::span<const TextExample> examples,
                                int64_t most) {
  return CutByRoom(examples.size(), most, [&](size_t i) {
    return std::ssize(examples[i].ids) + std::ssize(examples[i].target);
  });
}

std::string TextKey(std::span<const TextExample> examples) {
  dist::Packer ids;
  for (const TextExample& example : examples) {
    ids.Put(example.ids);
    ids.Put(example.target);
  }
  return fmt::format("{} sequences, {}", examples.size(), KeyOf(ids.Take()));
}

}  // namespace headwise
