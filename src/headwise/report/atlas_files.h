// The files of an atlas (docs/atlas.md): a page that opens from disk with a
// script file a head, and the data folder of HeadVis' viewer.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/atlas.h"
#include "headwise/base/json.h"
#include "headwise/heads/atlas/atlas_pass.h"
#include "headwise/profile.h"
#include "headwise/report/head_evidence.h"
#include "headwise/report/token_text.h"

namespace headwise {

// Heads in AllHeads' order everywhere.
struct AtlasParts {
  std::string model;  // its name
  const AtlasJob& job;
  const Atlas& atlas;
  const AtlasSums& sums;
  const std::vector<std::vector<KeptSequence>>& chosen;
  const std::vector<std::vector<SparseMap>>& maps;
  const Profile& profile;
  const Json& report;  // headwise.report/1, as ReportJson makes it
  // What its queries match, of each head; none: left out.
  const std::vector<std::vector<TokenWrites>>& matches;
  const TokenText& text;
};

// Writes every file whole or not at all; the folders are made.
void WriteHeadVisData(const std::filesystem::path& folder,
                      const AtlasParts& parts);
void WriteAtlasPage(const std::filesystem::path& folder,
                    const AtlasParts& parts);

// "L5H1": the name of a head's files.
std::string FileNameOf(const HeadRef& head);

// web/ as it was built, or the plain page (web/plain.html), with a place to
// fill: the comment <!--plain-->.
std::string_view AtlasTemplate();

}  // namespace headwise
