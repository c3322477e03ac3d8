// A report as one self-contained HTML file: the embedded page with the data in
// it, and the same as plain tables for readers without script.
#pragma once

#include <string>
#include <string_view>

#include "headwise/base/json.h"

namespace headwise {

// `report`: headwise.report/1, as ReportJson makes it.
std::string HtmlReport(const Json& report);

// Its summary, heads and definitions as headings, lists and tables.
std::string PlainTables(const Json& report);

// JSON that may stand inside a <script>: no "<", so that no string of the data
// can end it. Bytes that are no UTF-8 become U+FFFD.
std::string ScriptJson(const Json& json);

// The template with both places filled. Throws Error(kInternal) for a template
// without them.
std::string FillTemplate(std::string_view page, std::string_view json,
                         std::string_view plain);

}  // namespace headwise
