package hiveingest.judge;

import java.io.File;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;

/**
 * The system class loader (java.system.class.loader): reads the class path in the stead of Java's own.
 *
 * <p>Hive 3.1 casts the loader of its classes to URLClassLoader, which Java 8's was and Java 9's is not. As
 * the system class loader it is also that of threads which inherit none, as the cleaner's in Hive 4.
 */
public final class SystemLoader extends URLClassLoader {
  /** The argument is Java's own loader of the class path; only what is above it is asked first. */
  public SystemLoader(ClassLoader replaced) throws MalformedURLException {
    super(classPath(), replaced.getParent());
  }

  private static URL[] classPath() throws MalformedURLException {
    String[] entries = System.getProperty("java.class.path").split(File.pathSeparator);
    URL[] urls = new URL[entries.length];
    for (int i = 0; i < entries.length; i++) urls[i] = Path.of(entries[i]).toUri().toURL();
    return urls;
  }
}
