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

// The page that reports are written into: web/ as it was built, or plain.html
// where it could not be, with two places to fill: the JSON of <script
// id="report"> and the comment <!--plain-->.
std::string_view PageTemplate();

}  // namespace headwise
