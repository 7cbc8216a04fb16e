import org.apache.solr.client.solrj.embedded.JettySolrRunner;

/** A Solr on a free port, with the cores of the folder that is given; it prints where it listens. */
class Serve {
    public static void main(String[] arguments) throws Exception {
        var solr = new JettySolrRunner(arguments[0], "/solr", 0);
        try {
            solr.start();
            solr.getCoreContainer().getCore("products").close(); // it failed to load if there is none
        } catch (Throwable problem) {
            problem.printStackTrace();
            System.exit(1); // threads of the server would go on
        }
        System.out.println("listening at http://127.0.0.1:" + solr.getLocalPort() + "/solr");
    }
}
