// The commands of the program, one per cmd_*.cc.
#pragma once

#include "command.h"

namespace headwise {

extern const Command kAtlasCommand;     // cmd_atlas.cc
extern const Command kBenchCommand;     // cmd_bench.cc
extern const Command kBleuCommand;      // cmd_bleu.cc
extern const Command kClassifyCommand;  // cmd_classify.cc
extern const Command kCompareCommand;   // cmd_compare.cc
extern const Command kComposeCommand;   // cmd_compose.cc
extern const Command kDemoCommand;      // cmd_demo.cc
extern const Command kDumpCommand;      // cmd_dump.cc
extern const Command kEmbedCommand;     // cmd_embed.cc
extern const Command kEvaluateCommand;  // cmd_evaluate.cc
extern const Command kExplainCommand;   // cmd_explain.cc
extern const Command kExportCommand;    // cmd_export.cc
extern const Command kFillCommand;      // cmd_fill.cc
extern const Command kGenerateCommand;  // cmd_generate.cc
extern const Command kInfoCommand;      // cmd_info.cc
extern const Command kMergeCommand;     // cmd_merge.cc
extern const Command kPatchCommand;     // cmd_patch.cc
extern const Command kPlanCommand;      // cmd_plan.cc
extern const Command kProfileCommand;   // cmd_profile.cc
extern const Command kPruneCommand;     // cmd_prune.cc
extern const Command kRankCommand;      // cmd_rank.cc
extern const Command kRolesCommand;     // cmd_roles.cc
extern const Command kShowCommand;      // cmd_show.cc
extern const Command kSimilarCommand;   // cmd_similar.cc
extern const Command kReportCommand;    // cmd_report.cc
extern const Command kStudyCommand;     // cmd_study.cc
extern const Command kTokenizeCommand;  // cmd_tokenize.cc
extern const Command kTrainCommand;     // cmd_train.cc
extern const Command kVocabCommand;     // cmd_vocab.cc

}  // namespace headwise
