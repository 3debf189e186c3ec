# Installs what people use: the command line tool, man pages, completions, documents, and the script that gdb loads by
# itself. An installed tree may be moved, but gdb looks for its script under the library's own path.
set(HK_PYTHON_DIR "${CMAKE_INSTALL_DATADIR}/hakmem/python" CACHE STRING "Where the tool's Python package goes")
set(HK_TOOL_PYTHON /usr/bin/python3 CACHE STRING "The Python that runs the installed tool")
if(NOT HK_TOOL_PYTHON MATCHES "^/[^ \t]+$")
  message(FATAL_ERROR "HK_TOOL_PYTHON is \"${HK_TOOL_PYTHON}\": expected an absolute path without spaces")
endif()
set(HK_ZSH_DIR "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" CACHE STRING "Where zsh finds completions")
set(native_dir "${CMAKE_INSTALL_LIBDIR}/hakmem")
set(man_pages "${PROJECT_SOURCE_DIR}/docs/man")

# hk_install_with_path(<from> <to> <code>): runs code at the installation, whose prefix may be another one than the
# configured one. `from` and `to` are folders, below the prefix unless absolute. For the code `way` is the relative path
# between them, and `place` is `from` below DESTDIR.
function(hk_install_with_path from to code)
  install(
    CODE "
    get_filename_component(prefix \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
    get_filename_component(from \"${from}\" ABSOLUTE BASE_DIR \"\${prefix}\")
    get_filename_component(to \"${to}\" ABSOLUTE BASE_DIR \"\${prefix}\")
    file(RELATIVE_PATH way \"\${from}\" \"\${to}\")
    set(place \"\$ENV{DESTDIR}\${from}\")
    ${code}"
  )
endfunction()

# The tool: a Python package, and in its folder `native` the launcher and the libraries.
install(
  DIRECTORY "${PROJECT_SOURCE_DIR}/cli/hakmem"
  DESTINATION "${HK_PYTHON_DIR}"
  PATTERN __pycache__ EXCLUDE
  PATTERN native EXCLUDE
)
install(TARGETS hakmem_policy LIBRARY DESTINATION "${native_dir}")
install(TARGETS hakmem_launcher RUNTIME DESTINATION "${native_dir}")
foreach(library IN ITEMS hakmem hakmem-fast hakmem-secure)
  hk_install_link("../lib${library}.so.${HK_SOVERSION}" "${native_dir}/lib${library}.so")
endforeach()
hk_install_with_path(
  "${HK_PYTHON_DIR}/hakmem" "${native_dir}" "file(CREATE_LINK \"\${way}\" \"\${place}/native\" SYMBOLIC)"
)
hk_install_with_path(
  "${CMAKE_INSTALL_BINDIR}"
  "${HK_PYTHON_DIR}"
  "message(STATUS \"Installing: \${place}/hakmem\")
    set(HK_TOOL_PYTHON \"${HK_TOOL_PYTHON}\")
    set(to_python \"\${way}\")
    configure_file(
      \"${PROJECT_SOURCE_DIR}/cli/hakmem.in\" \"\${place}/hakmem\" @ONLY
      FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE
    )"
)

# Completions, by the names under which the shells look for them.
set(completions "${PROJECT_SOURCE_DIR}/cli/completions")
install(FILES "${completions}/bash/hakmem" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(FILES "${completions}/zsh/_hakmem" DESTINATION "${HK_ZSH_DIR}")
install(FILES "${completions}/fish/hakmem.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")

# Man pages; each function's name leads to hakmem(3).
foreach(section IN ITEMS 1 3 7)
  file(GLOB pages CONFIGURE_DEPENDS "${man_pages}/*.${section}")
  install(FILES ${pages} DESTINATION "${CMAKE_INSTALL_MANDIR}/man${section}")
endforeach()
file(STRINGS "${PROJECT_SOURCE_DIR}/include/hakmem/hakmem.h" functions REGEX "^HAKMEM_EXPORT .*hakmem_[a-z0-9_]+\\(")
foreach(function IN LISTS functions)
  string(REGEX REPLACE ".*(hakmem_[a-z0-9_]+)\\(.*" "\\1" function "${function}")
  hk_install_link(hakmem.3 "${CMAKE_INSTALL_MANDIR}/man3/${function}.3")
endforeach()

# Documents, and all that they link to, in the folders that their links name. A package of the sources has no tests.
set(documents
    LICENSE
    README.md
    CHANGELOG.md
    CONTRIBUTING.md
    SECURITY.md
    bench/README.md
    bindings/rust/README.md
    bindings/rust/examples/service.rs
    include/hakmem/hakmem.h
    include/hakmem/hakmem.hpp
    packaging/arch/PKGBUILD
    packaging/rpm/hakmem.spec
    src/README.md
    tests/README.md
)
foreach(document IN LISTS documents)
  get_filename_component(folder "${document}" DIRECTORY)
  install(FILES "${PROJECT_SOURCE_DIR}/${document}" DESTINATION "${CMAKE_INSTALL_DOCDIR}/${folder}" OPTIONAL)
endforeach()
install(
  DIRECTORY "${PROJECT_SOURCE_DIR}/docs"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  PATTERN man EXCLUDE
)
# The configurations for Prometheus and others, which the recipe of many machines starts from.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/packaging/monitoring" DESTINATION "${CMAKE_INSTALL_DOCDIR}/packaging" OPTIONAL)
install(
  DIRECTORY "${PROJECT_SOURCE_DIR}/bench/results"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}/bench"
  OPTIONAL
  PATTERN *.json EXCLUDE
)

# gdb's script: to name it oneself, and under the library's path, as gdb looks for it in its folder share/gdb/auto-load.
set(script "${PROJECT_SOURCE_DIR}/tools/gdb/hakmem_gdb.py")
install(FILES "${script}" DESTINATION "${CMAKE_INSTALL_DATADIR}/hakmem/gdb")
foreach(library IN ITEMS hakmem hakmem-fast hakmem-secure)
  install(
    CODE "
    get_filename_component(prefix \"\${CMAKE_INSTALL_PREFIX}\" REALPATH)
    get_filename_component(data \"${CMAKE_INSTALL_DATADIR}\" ABSOLUTE BASE_DIR \"\${CMAKE_INSTALL_PREFIX}\")
    get_filename_component(libraries \"${CMAKE_INSTALL_LIBDIR}\" ABSOLUTE BASE_DIR \"\${prefix}\")
    set(script \"\${data}/gdb/auto-load\${libraries}/lib${library}.so.${PROJECT_VERSION}-gdb.py\")
    set(script \"\$ENV{DESTDIR}\${script}\")
    message(STATUS \"Installing: \${script}\")
    configure_file(\"${script}\" \"\${script}\" COPYONLY NO_SOURCE_PERMISSIONS)"
  )
endforeach()
