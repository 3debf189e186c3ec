/* report/profile_file.h - L9. The file that HAKMEM_PROFILE_FILE names: the heap profile at the end of the program. */
#ifndef HK_REPORT_PROFILE_FILE_H
#define HK_REPORT_PROFILE_FILE_H

/* At the start: checks that the file can be made, and warns if it cannot or if a profile runs and no file is named. */
void hk_profile_file_check(void);

/* At the end: writes the profile into a new file, if one was ever started. Without %p in its path the file belongs to
 * the first process only. On failure it prints a warning and changes nothing else. */
void hk_profile_file_finish(void);

#endif /* HK_REPORT_PROFILE_FILE_H */
