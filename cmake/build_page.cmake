# cmake -DWEB=… -DPLAIN=… -DFOLDER=… -DENABLED=… -DNODE=… -DNPM=…
#       -DREPORT=page.html -DATLAS=atlas.html -P …
# Builds the pages in FOLDER, or takes the plain one for both and says why. What
# was built from the same files before is taken again, so that several build
# folders cost one `npm ci`.

function(plain why)
  message("headwise: reports will be plain tables: ${why}")
  file(COPY_FILE "${PLAIN}" "${REPORT}")
  file(COPY_FILE "${PLAIN}" "${ATLAS}")
endfunction()

function(take_built)
  file(COPY_FILE "${built}/report.html" "${REPORT}")
  file(COPY_FILE "${built}/atlas.html" "${ATLAS}")
endfunction()

if(NOT ENABLED)
  plain("HEADWISE_WEB_PAGE is OFF")
  return()
endif()
if(NOT EXISTS "${NODE}" OR NOT EXISTS "${NPM}")
  plain("no node or npm found when the build was configured")
  return()
endif()

file(MAKE_DIRECTORY "${FOLDER}")
file(LOCK "${FOLDER}" DIRECTORY TIMEOUT 300 RESULT_VARIABLE locked)
if(NOT locked EQUAL 0)
  plain("another build holds ${FOLDER}")
  return()
endif()

set(names .npmrc atlas.html build.mjs package.json package-lock.json
    report.html tsconfig.json)
file(GLOB_RECURSE sources RELATIVE "${WEB}" "${WEB}/src/*")
list(SORT sources)
set(key "")
foreach(name ${names} ${sources})
  file(SHA256 "${WEB}/${name}" hash)
  string(APPEND key "${name} ${hash}\n")
endforeach()
set(known "")
if(EXISTS "${FOLDER}/key")
  file(READ "${FOLDER}/key" known)
endif()
set(built "${FOLDER}/web/dist")
if(known STREQUAL key AND EXISTS "${built}/atlas.html")
  take_built()
  return()
endif()
file(REMOVE "${FOLDER}/key")

file(MAKE_DIRECTORY "${FOLDER}/web")
file(REMOVE_RECURSE "${FOLDER}/web/src" "${FOLDER}/web/dist")
foreach(name ${names})
  file(COPY_FILE "${WEB}/${name}" "${FOLDER}/web/${name}")
endforeach()
file(COPY "${WEB}/src" DESTINATION "${FOLDER}/web")

# run(SECONDS command…): sets `failed` to the last words of one that failed.
function(run seconds)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY "${FOLDER}/web"
    RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text
    TIMEOUT ${seconds})
  set(failed "" PARENT_SCOPE)
  if(NOT code EQUAL 0)
    string(STRIP "${text}" text)
    string(LENGTH "${text}" length)
    if(length GREATER 300)
      math(EXPR from "${length} - 300")
      string(SUBSTRING "${text}" ${from} -1 text)
    endif()
    list(GET ARGN 1 step)
    set(failed "npm ${step} failed (${code}): ${text}" PARENT_SCOPE)
  endif()
endfunction()

# Packages first, if the list of them changed. Without a network this must
# give up soon: the plain page is always there.
file(SHA256 "${WEB}/package-lock.json" lock)
set(installed "")
if(EXISTS "${FOLDER}/installed")
  file(READ "${FOLDER}/installed" installed)
endif()
if(NOT installed STREQUAL lock)
  file(REMOVE "${FOLDER}/installed")
  run(150 "${NPM}" ci --ignore-scripts --no-audit --no-fund
      --fetch-retries=1 --fetch-retry-mintimeout=1000
      --fetch-retry-maxtimeout=5000 --fetch-timeout=30000)
  if(failed)
    plain("${failed}")
    return()
  endif()
  file(WRITE "${FOLDER}/installed" "${lock}")
endif()
run(120 "${NPM}" run build)
if(failed OR NOT EXISTS "${built}/atlas.html")
  plain("the pages were not built ${failed}")
  return()
endif()
file(WRITE "${FOLDER}/key" "${key}")
take_built()
