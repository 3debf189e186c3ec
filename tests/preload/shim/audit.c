/* The least that LD_AUDIT accepts: it only says that it knows the version. */
unsigned int la_version(unsigned int version) { return version; }
